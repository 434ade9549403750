"""What a change of the metadata makes of the znodes: each that it concerns is to hold what the image after it says.

Doing it again does no harm, so a controller that was cut off in the middle begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.metadata.quotas import CLIENT_ID, USER, QuotaEntity
from barnabas.core.metadata.topics import TopicImage
from barnabas.core.zookeeper.znodes import acls, clients, configs, control, tokens, topics
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.configs import CONFIG, Passwords
from barnabas.core.zookeeper.znodes.notifications import ACL_CHANGE, CONFIG_CHANGE, TOKEN_CHANGE, config_change
from barnabas.model.acl import ResourcePattern


class Written(NamedTuple):
    """The znode is to hold these bytes; it and its parents are made where they are missing.

    version: the one that is replaced, None for whichever there is; a partition's state is replaced only if nobody else
    has changed it.
    """

    path: str
    data: bytes
    version: int | None = None


class Removed(NamedTuple):
    """The znode is to go, with all below it."""

    path: str


class Pruned(NamedTuple):
    """The znode is to go unless something lies below it."""

    path: str


class Told(NamedTuple):
    """A sequential znode is to be made, so that brokers hear of the change. path: without the number."""

    path: str
    data: bytes


ZnodeChange = Written | Removed | Pruned | Told


def marking(topic: str) -> Iterator[ZnodeChange]:
    """Give the change that says that a topic is to go."""
    yield Written(topics.deletion_path(topic), b"")


def removal(topic: str) -> Iterator[ZnodeChange]:
    """Give the changes that take away a topic and its configs, or what is left of them.

    Marked first: half a topic would else be one whose partitions have no state yet.
    """
    yield from marking(topic)
    yield Removed(topics.topic_path(topic))
    yield Removed(configs.path(ConfigResource(ConfigResourceType.TOPIC, topic)))
    yield Removed(topics.deletion_path(topic))


def changes(
    delta: MetadataDelta,
    rules: RulesByPattern,
    controller_epoch: int,
    passwords: Passwords,
    deleted: Callable[[str], Iterator[ZnodeChange]] = removal,
) -> tuple[list[ZnodeChange], RulesByPattern]:
    """Give the changes of znodes that a delta means, in the order to make them, and the rules after it.

    rules: of the image before. deleted: gives those for a topic that has gone, by its name; `marking` when its znodes
    are to stay for now. What brokers register themselves, and who is the controller, is not among them.
    """
    after, touched = rules.after(delta)
    found = [
        *(change for name in sorted(delta.deleted_topics.values()) for change in deleted(name)),
        *_topics(delta, controller_epoch),
        *_configs(delta, passwords),
        *_clients(delta),
        *(change for pattern in sorted(touched, key=acls.path) for change in _rules(after, pattern)),
        *_tokens(delta),
    ]
    if delta.producer_ids:
        found.append(Written(control.PRODUCER_IDS, control.producer_ids(delta.after.producer_ids)))
    if delta.features:
        found.append(Written(control.FEATURES, control.features(dict(delta.after.features.others))))
    return found, after


def _topics(delta: MetadataDelta, controller_epoch: int) -> Iterator[ZnodeChange]:
    before, after = delta.before.topics.by_id, delta.after.topics.by_id
    for topic_id, numbers in delta.topics.items():
        yield from _topic(before.get(topic_id), after[topic_id], sorted(numbers), controller_epoch)


def _topic(before: TopicImage | None, after: TopicImage, numbers: list[int], epoch: int) -> Iterator[ZnodeChange]:
    old = {} if before is None else {n: before.partitions.get(n) for n in numbers}
    if before is None or any(_placed(old[n]) != _placed(after.partitions[n]) for n in numbers):
        yield Written(topics.topic_path(after.name), topics.assignment(after))
    for number in numbers:
        was, partition = old.get(number), after.partitions[number]
        if _state(was) != _state(partition):
            expected = None if was is None else was.partition_epoch
            yield Written(topics.state_path(after.name, number), topics.state(partition, epoch), expected)


def _placed(partition: PartitionRegistration | None) -> object:
    return partition and (partition.replicas, partition.adding_replicas, partition.removing_replicas)


def _state(partition: PartitionRegistration | None) -> object:
    return partition and (
        partition.leader, partition.leader_epoch, partition.isr, partition.leader_recovery_state,
        partition.partition_epoch,
    )  # fmt: skip


def _configs(delta: MetadataDelta, passwords: Passwords) -> Iterator[ZnodeChange]:
    gone = set(delta.deleted_topics.values()) - set(delta.after.topics.by_name)
    made = {ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in delta.created_topics}
    for resource in sorted(delta.configs | made):
        if not configs.has_znode(resource) or (resource.type is ConfigResourceType.TOPIC and resource.name in gone):
            continue
        yield Written(configs.path(resource), configs.overrides(delta.after.configs.get(resource), passwords))
        if resource not in made:
            yield Told(CONFIG_CHANGE, config_change(configs.entity_path(resource)))


def _clients(delta: MetadataDelta) -> Iterator[ZnodeChange]:
    users = {clients.user(name) for _, name in delta.scram}
    for entity in sorted(delta.client_quotas | users, key=repr):
        path = clients.entity_path(entity)
        if path is None:
            continue
        yield Written(f"{CONFIG}/{path}", clients.holdings(delta.after, entity))
        if not _holds(delta, entity):
            yield from _pruned(delta, entity, path)
        yield Told(CONFIG_CHANGE, config_change(path))


def _holds(delta: MetadataDelta, entity: QuotaEntity) -> bool:
    after = delta.after
    if after.client_quotas.get(entity):
        return True
    names = {part.type: part.name for part in entity}
    name = names.get(USER)
    return name is not None and len(names) == 1 and any(name in users for users in after.scram.by_mechanism.values())


def _pruned(delta: MetadataDelta, entity: QuotaEntity, path: str) -> Iterator[ZnodeChange]:
    yield Pruned(f"{CONFIG}/{path}")
    names = {part.type: part.name for part in entity}
    if USER in names and CLIENT_ID in names:
        user = path.rpartition("/clients/")[0]
        yield Pruned(f"{CONFIG}/{user}/clients")
        if not _holds(delta, tuple(part for part in entity if part.type == USER)):
            yield Pruned(f"{CONFIG}/{user}")


def _rules(after: RulesByPattern, pattern: ResourcePattern) -> Iterator[ZnodeChange]:
    left = after.of(pattern)
    yield Written(acls.path(pattern), acls.rules(left)) if left else Removed(acls.path(pattern))
    root, told = acls.notification(pattern)
    yield Told(f"{root}/{ACL_CHANGE}", told)


def _tokens(delta: MetadataDelta) -> Iterator[ZnodeChange]:
    for token_id in sorted(delta.tokens):
        token = delta.after.tokens.by_id.get(token_id)
        path = tokens.path(token_id)
        yield Removed(path) if token is None else Written(path, tokens.token(token))
        yield Told(TOKEN_CHANGE, token_id.encode())
