"""The metadata as a tree of paths, as Kafka's metadata shell shows it: `/image/topics/byName/orders/0` and so on.

A node is a directory (its children by name, made when they are asked for) or a file (a text). Texts are those of the
shell that Apache Kafka 4.3 comes with, but for ACLs, which are JSON here and stand at `/acl/id` too (KIP-801).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from immutables import Map

from barnabas.core.metadata.acls import acl_record
from barnabas.core.metadata.cluster import BrokerRegistration, ControllerRegistration, Endpoint, VersionRange
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.features import FeaturesImage
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import CLIENT_ID, IP, USER, QuotaEntity
from barnabas.core.metadata.scram import ScramCredential, ScramMechanism
from barnabas.core.metadata.tokens import DelegationToken
from barnabas.core.metadata.topics import RECOVERED, PartitionRegistration, TopicImage
from barnabas.model.acl import AclBinding
from barnabas.model.features import MetadataVersion
from barnabas.model.java_number import java_double
from barnabas.model.uuid import Uuid

Tree = Mapping[str, "Tree"] | str
"""A directory or a file."""
REDACTED: Final = "[redacted]"
_MANY_LEVELS: Final = 0x7FFF
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_QUOTA_NAMES: Final = ((CLIENT_ID, "clientId"), (IP, "ip"), (USER, "user"))


class Directory(Mapping[str, Tree]):
    """A directory whose children are made when they are looked at."""

    __slots__ = ("_child", "_names")

    def __init__(self, names: Iterable[str], child: Callable[[str], Tree]) -> None:
        """names: of the children. child: makes the one with a name."""
        self._names = dict.fromkeys(names)
        self._child = child

    def __getitem__(self, name: str) -> Tree:
        if name not in self._names:
            raise KeyError(name)
        return self._child(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class TreeSource:
    """What a tree is of. time_ms: of the newest record; is_secret: None shows everything."""

    image: MetadataImage
    time_ms: int = 0
    local: Mapping[str, Tree] = field(default_factory=dict)
    is_secret: Callable[[ConfigResourceType, str], bool] | None = None


def tree(source: TreeSource) -> Tree:
    """Give the whole tree."""
    image, hidden = source.image, source.is_secret is not None
    acls = Directory(map(str, image.acls.by_id), lambda i: _acl(Uuid.parse(i), image.acls.by_id[Uuid.parse(i)]))
    return {
        "acl": {"id": acls},
        "image": {
            "provenance": _provenance(source),
            "features": _features(image.features),
            "cluster": {
                "brokers": _by_number(image.cluster.brokers, _broker),
                "controllers": _by_number(image.cluster.controllers, _controller),
            },
            "topics": {
                "byName": Directory(image.topics.by_name, lambda name: _topic(image.topics.by_name[name])),
                "byId": Directory(map(str, image.topics.by_id), lambda i: _topic(image.topics.by_id[Uuid.parse(i)])),
            },
            "configs": {
                _resource(resource): _configs(resource, values, source.is_secret)
                for resource, values in image.configs.by_resource.items()
            },
            "clientQuotas": {
                _entity(entity): {key: java_double(value) for key, value in values.items()}
                for entity, values in image.client_quotas.by_entity.items()
            },
            "producerIds": {"nextProducerId": str(image.producer_ids.next_producer_id or -1)},  # -1: none given yet
            "acls": {"byId": acls},
            "scram": {
                m.mechanism_name: _credentials(image.scram.by_mechanism.get(m, Map()), hidden)
                for m in ScramMechanism
                if m is not ScramMechanism.UNKNOWN
            },
            "delegationToken": {name: _token(token, hidden) for name, token in sorted(image.tokens.by_id.items())},
        },
        "local": source.local,
    }


def find(root: Tree, path: str) -> Tree | None:
    """Give what is at `/a/b/c`; None when there is nothing."""
    node: Tree | None = root
    for name in path.strip("/").split("/"):
        if not name:
            continue
        if not isinstance(node, Mapping):
            return None
        node = node.get(name)
    return node


def _provenance(source: TreeSource) -> str:
    at = source.image.offset_epoch
    time = datetime.fromtimestamp(source.time_ms / 1000, UTC).replace(tzinfo=None)
    # As Java's ISO_ZONED_DATE_TIME: no digits of the second's fraction that are not needed.
    text = time.isoformat(timespec="milliseconds")
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"offset {at.offset}, epoch {at.epoch}, time {whole}{f'.{fraction}' if fraction else ''}Z[UTC]"


def _features(features: FeaturesImage) -> Tree:
    found = {f"finalized_{name}": str(level) for name, level in features.others.items()}
    version = features.metadata_version
    if version is None:
        return found
    known = {int(v): str(v) for v in MetadataVersion}
    return {"metadataVersion": f"Optional[{known.get(version, version)}]", **found}


def _by_number(things: Mapping[int, Any], text: Callable[[Any], str]) -> Tree:
    return Directory(map(str, things), lambda name: text(things[int(name)]))


def _topic(topic: TopicImage) -> Tree:
    def child(name: str) -> Tree:
        if name in ("name", "id"):
            return topic.name if name == "name" else str(topic.id)
        return _partition(topic.partitions[int(name)])

    return Directory(["name", "id", *map(str, topic.partitions)], child)


def _partition(p: PartitionRegistration) -> str:
    fields = {
        "replicas": _array(p.replicas),
        "directories": _array(p.directories),
        "isr": _array(p.isr),
        "removingReplicas": _array(p.removing_replicas),
        "addingReplicas": _array(p.adding_replicas),
        "elr": _array(p.elr),
        "lastKnownElr": _array(p.last_known_elr),
        "leader": p.leader,
        "leaderRecoveryState": "RECOVERED" if p.leader_recovery_state == RECOVERED else "RECOVERING",
        "leaderEpoch": p.leader_epoch,
        "partitionEpoch": p.partition_epoch,
    }
    return _record("PartitionRegistration", fields)


def _broker(broker: BrokerRegistration) -> str:
    cordoned = broker.cordoned_directories
    fields = {
        "id": broker.id,
        "epoch": broker.epoch,
        "incarnationId": broker.incarnation_id,
        "listeners": _listeners(broker.listeners),
        "supportedFeatures": _ranges(broker.features),
        "rack": "Optional.empty" if broker.rack is None else f"Optional[{broker.rack}]",
        "fenced": _bool(broker.fenced),
        "inControlledShutdown": _bool(broker.in_controlled_shutdown),
        "isMigratingZkBroker": _bool(broker.is_migrating_zk_broker),
        "directories": _array(broker.directories),
        "cordonedDirectories": "null" if cordoned is None else _array(cordoned),
    }
    return _record("BrokerRegistration", fields)


def _controller(controller: ControllerRegistration) -> str:
    fields = {
        "id": controller.id,
        "incarnationId": controller.incarnation_id,
        "zkMigrationReady": _bool(controller.zk_migration_ready),
        "listeners": _listeners(controller.listeners),
        "supportedFeatures": _ranges(controller.features),
    }
    return _record("ControllerRegistration", fields)


def _listeners(listeners: Mapping[str, Endpoint]) -> str:
    shown = (
        f"Endpoint(listenerName='{name}', securityProtocol={_PROTOCOLS[e.security_protocol]}, "
        f"host='{e.host}', port={e.port})"
        for name, e in sorted(listeners.items())
    )
    return f"[{', '.join(shown)}]"


def _ranges(features: Mapping[str, VersionRange]) -> str:
    return "{" + ", ".join(f"{name}: {_range(levels)}" for name, levels in sorted(features.items())) + "}"


def _range(levels: VersionRange) -> str:
    if levels.lowest == levels.highest:
        return str(levels.lowest)
    return f"{levels.lowest}+" if levels.highest == _MANY_LEVELS else f"{levels.lowest}-{levels.highest}"


def _resource(resource: ConfigResource) -> str:
    return f"{resource.type.name}:{resource.name}" if resource.name else resource.type.name


def _configs(
    resource: ConfigResource, values: Mapping[str, str], is_secret: Callable[[ConfigResourceType, str], bool] | None
) -> Tree:
    return {k: REDACTED if is_secret is not None and is_secret(resource.type, k) else v for k, v in values.items()}


def _entity(entity: QuotaEntity) -> str:
    names = {part.type: part.name for part in entity}
    shown = ((label, names[kind]) for kind, label in _QUOTA_NAMES if kind in names)
    return "_".join(f"{label}({'<default>' if name is None else _escaped(name)})" for label, name in shown)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _acl(acl_id: Uuid, binding: AclBinding) -> str:
    r = acl_record(acl_id, binding).record
    shown = {
        "id": str(r.id),
        "resourceType": int(r.resource_type),
        "resourceName": r.resource_name,
        "patternType": int(r.pattern_type),
        "principal": r.principal,
        "host": r.host,
        "operation": int(r.operation),
        "permissionType": int(r.permission_type),
    }
    return json.dumps(shown, indent=2, separators=(",", " : "), ensure_ascii=False)


def _credentials(users: Mapping[str, ScramCredential], hidden: bool) -> Tree:
    return Directory(users, lambda user: _credential(users[user], hidden))


def _credential(credential: ScramCredential, hidden: bool) -> str:
    fields = {
        "salt": credential.salt.hex(),
        "storedKey": credential.stored_key.hex(),
        "serverKey": credential.server_key.hex(),
        "iterations": credential.iterations,
    }
    return _record("ScramCredentialData", dict.fromkeys(fields, REDACTED) if hidden else fields)


def _token(token: DelegationToken, hidden: bool) -> str:
    fields = {
        "tokenId": token.id,
        "owner": token.owner,
        "tokenRequester": token.requester,
        "renewers": " ".join(map(str, token.renewers)),
        "issueTimestamp": token.issue_timestamp,
        "maxTimestamp": token.max_timestamp,
        "expiryTimestamp": token.expiry_timestamp,
    }
    return _record("DelegationTokenData", dict.fromkeys(fields, REDACTED) if hidden else fields)


def _record(name: str, fields: Mapping[str, object]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in fields.items())})"


def _array(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"
