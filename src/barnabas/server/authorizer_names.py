"""The authorizers of Kafka's that `authorizer.class.name` may name."""

from __future__ import annotations

from typing import Final

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
"""Decides in the same way, by rules that are kept in ZooKeeper."""
AUTHORIZERS: Final = ("", STANDARD_AUTHORIZER, ACL_AUTHORIZER)
ACL_STORE_PREFIX: Final = "authorizer.zookeeper."
"""Of settings of the ZooKeeper that AclAuthorizer's rules are in, where they differ from the node's own."""
ACL_STORE_URL: Final = "authorizer.zookeeper.url"
