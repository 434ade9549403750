"""What an operator should read at the start: settings that are not what they seem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.net.zookeeper.config_keys import CONNECT, ZOOKEEPER_KEYS
from barnabas.server.authorizer_names import ACL_AUTHORIZER, ACL_STORE_PREFIX
from barnabas.server.config_keys import OF_ZOOKEEPER_MODE, TABLE, quorum

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig

_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.([^.]+)\.(.+)")
_OF_KRAFT: Final = frozenset(key.name for key in quorum.KEYS) | {"sasl.mechanism.controller.protocol"}


def warnings_of(config: NodeConfig, unknown: Mapping[str, str | None]) -> Iterator[str]:
    """Give them as sentences. unknown: keys that no table has, each with the nearest one that some table has."""
    for name, nearest in unknown.items():
        prefixed = _LISTENER_PREFIX.fullmatch(name)
        if prefixed and (prefixed[2] in TABLE or prefixed[2].partition(".")[2] in TABLE):
            continue
        if config.keeps_acls_in_zookeeper and name.startswith(ACL_STORE_PREFIX):
            continue
        hint = f"; did you mean {nearest}?" if nearest else ""
        yield f"{name} is not a setting of Kafka's and has no effect{hint}"
    of_the_other = _of_the_other_mode(config)
    idle = [n for n in config.originals if (key := TABLE.get(n)) is not None and not key.acted_on]
    if idle := sorted(set(idle) - of_the_other):
        yield f"settings of Kafka's that have no effect here: {', '.join(idle)}"
    if found := sorted(of_the_other & config.originals.keys()):
        here = "in ZooKeeper mode" if config.is_zookeeper_mode else "where process.roles is set"
        only = f", unless the authorizer is {ACL_AUTHORIZER}" if CONNECT in found else ""
        yield f"settings of Kafka's that have no effect {here}{only}: {', '.join(found)}"


def _of_the_other_mode(config: NodeConfig) -> frozenset[str]:
    if config.is_zookeeper_mode:
        return _OF_KRAFT
    if config.keeps_acls_in_zookeeper:
        return OF_ZOOKEEPER_MODE - {key.name for key in ZOOKEEPER_KEYS}
    return OF_ZOOKEEPER_MODE
