"""Whole trees as they stand in ZooKeeper, with their ACLs, and what of them is the same whoever made them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.core.zookeeper.paths import ROOT
from barnabas.core.zookeeper.znodes.tokens import CHANGES as TOKEN_CHANGES
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.walk import read_trees
from barnabas.server.zookeeper.reading import read_znodes
from tests.peers.zookeeper_cluster import ZooKeeperCluster


class Seen(NamedTuple):
    """A znode: its data as text, and its ACL."""

    data: str
    acl: str


async def read_tree(zk: ZooKeeperClient) -> dict[str, Seen]:
    """Give every znode below the chroot, itself included, once nothing changes any more."""
    before: dict[str, Seen] = {}
    while (found := await _read_once(zk)) != before:
        before = found
        await asyncio.sleep(0.2)  # between two looks
    return found


async def _read_once(zk: ZooKeeperClient) -> dict[str, Seen]:
    walked = await read_trees(zk, [ROOT], lambda _: None)
    assert not walked.refused
    acls = {one.path: ", ".join(map(str, one.acls)) for one in walked.found}
    found = {one.path: one.data for one in await read_znodes(zk, [ROOT])}
    found.setdefault(ROOT, b"")
    return {path: Seen(found[path].decode(), acl) for path, acl in acls.items() if path in found}


OFFSETS: Final = "/brokers/topics/__consumer_offsets"
SOME: Final = ("/cluster/id", "/controller_epoch", "/latest_producer_id_block")
ACLS: Final = ("/kafka-acl/", "/kafka-acl-extended/")
_NUMBERED: Final = re.compile(r"\d{10}$")
_SCRAM: Final = re.compile(r"(salt|stored_key|server_key)=[^,]+")


def comparable(cluster: ZooKeeperCluster, tree: dict[str, Seen]) -> dict[str, list[Seen]]:
    """Give what is the same for two clusters that did the same: without ids, times, epochs, ports and salts.

    Numbered znodes are together under their name without the number, in the order of the numbers.
    """
    ports = {str(one.port): f"port-{one.broker_id}" for one in cluster.brokers}
    tokens = {seen.data for path, seen in tree.items() if path.startswith(f"{TOKEN_CHANGES}/")}
    found: dict[str, list[Seen]] = {}
    for path in sorted(tree):
        data, acl = tree[path]
        for port, name in ports.items():
            data = re.sub(rf"\b{port}\b", name, data)
        for token in tokens:
            path, data = path.replace(token, "<token>"), data.replace(token, "<token>")
        found.setdefault(_NUMBERED.sub("<number>", path), []).append(Seen(_without(path, data), acl))
    return found


def _without(path: str, data: str) -> str:
    try:
        value = json.loads(data)
    except ValueError:
        return data
    return json.dumps(_plain(path, value), sort_keys=True)


def _plain(path: str, value: Any) -> Any:
    if path in SOME:
        return _some(value)
    if OFFSETS in path:  # nobody says where they go
        return _somewhere(value)
    if isinstance(value, dict):
        return {key: _KEYS[key](item) if key in _KEYS else _plain(path, item) for key, item in value.items()}
    if isinstance(value, list) and path.startswith(ACLS):  # a request holds them in no order
        return sorted(value, key=str)
    if isinstance(value, list):
        return [_plain(path, item) for item in value]
    return value


def _somewhere(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item if key == "version" else _some(item) for key, item in value.items()}


def _some(value: Any) -> str:
    return f"some {type(value).__name__}"


def _scram(value: str) -> str:
    return _SCRAM.sub(r"\1=some", value)


_KEYS: Final[dict[str, Callable[[Any], Any]]] = {
    "timestamp": _some,
    "controller_epoch": _some,
    "leader_epoch": _some,
    "topic_id": _some,
    "hmac": _some,
    "issueTimestamp": _some,
    "expiryTimestamp": _some,
    "maxTimestamp": _some,
    "jmx_port": _some,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "listener.name.extra.ssl.key.password": _some,
}
