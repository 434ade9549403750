"""Brokers: an ephemeral znode each, there as long as its session. Its transaction is the broker's epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.metadata.cluster import Endpoint, VersionRange
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes.znode import Fields, Znode, ZnodeError, json_of
from barnabas.wire.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

IDS: Final = "/brokers/ids"
_VERSION: Final = 5
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By Kafka's numbers."""


def path(broker_id: int) -> str:
    """Give where a broker registers."""
    return f"{IDS}/{broker_id}"


def registration(
    listeners: Mapping[str, Endpoint],
    *,
    rack: str | None,
    features: Mapping[str, VersionRange],
    timestamp_ms: int,
) -> bytes:
    """Give what a broker's znode holds; listeners in the order of the configuration."""
    plain = next((e for e in listeners.values() if _PROTOCOLS[e.security_protocol] == "PLAINTEXT"), None)
    return json_of(
        {
            "features": {n: {"min_version": r.lowest, "max_version": r.highest} for n, r in features.items()},
            "listener_security_protocol_map": {n: _PROTOCOLS[e.security_protocol] for n, e in listeners.items()},
            "endpoints": [f"{n}://{_bracketed(e.host)}:{e.port}" for n, e in listeners.items()],
            "jmx_port": -1,
            **({} if rack is None else {"rack": rack}),
            "port": -1 if plain is None else plain.port,
            "host": None if plain is None else plain.host,
            "version": _VERSION,
            "timestamp": str(timestamp_ms),
        }
    )


def record(znode: Znode) -> VersionedRecord:
    """Give the record that registers the broker, unfenced: who is there serves.

    Versions 2 to 5 of the format, which are those of Kafka 0.9 and later. ZnodeError for what Kafka does not write.
    """
    fields = Fields(znode)
    if fields.version(_VERSION) < 2:
        raise ZnodeError(znode.path, "this broker registered as Kafka 0.8 does, without endpoints; upgrade it")
    if not znode.name.isascii() or not znode.name.isdigit():
        raise ZnodeError(znode.path, "its name is not the id of a broker")
    protocols = fields.mapping("listener_security_protocol_map") or {name: name for name in _PROTOCOLS}
    found = RegisterBrokerRecord(
        broker_id=int(znode.name),
        broker_epoch=znode.created,
        end_points=[_endpoint(znode, text, protocols) for text in fields.texts("endpoints")],
        features=[_feature(znode, name, versions) for name, versions in fields.mapping("features").items()],
        rack=fields.all.get("rack"),
        fenced=False,
    )
    return VersionedRecord(found, 1)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(znode: Znode, text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    listener, found, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    protocol = protocols.get(listener)
    if not found or not colon or not port.isdigit() or protocol not in _PROTOCOLS:
        raise ZnodeError(znode.path, f"{text!r} is not the endpoint of a listener with a known security protocol")
    number = _PROTOCOLS.index(protocol)
    return BrokerEndpoint(name=listener, host=host.strip("[]"), port=int(port), security_protocol=number)


def _feature(znode: Znode, name: str, versions: Any) -> BrokerFeature:
    try:
        lowest, highest = int(versions["min_version"]), int(versions["max_version"])
    except (KeyError, TypeError, ValueError):
        raise ZnodeError(znode.path, f"feature {name!r} has no range of versions") from None
    return BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
