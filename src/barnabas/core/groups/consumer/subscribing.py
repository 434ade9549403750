"""What changes of subscriptions and of topics set off: resolved patterns, the hash of the topics, a new group epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barnabas.core.groups.consumer import records
from barnabas.core.groups.consumer.group import ConsumerGroup, ResolvedRegex
from barnabas.core.groups.consumer.hashing import group_hash
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.world import World

REGEX_MIN_INTERVAL_MS: Final = 10_000
"""Patterns of a group are not resolved more often, as matching walks over all topics. Kafka has no key for it."""


@dataclass(slots=True)
class Seen:
    """Against which topics, and in which of its epochs, each group was last checked. Soft: it may be forgotten."""

    _checked: dict[str, tuple[int, int]] = field(default_factory=dict)

    def is_stale(self, group: ConsumerGroup, world: World) -> bool:
        """Whether topics may have changed; also when the epoch of the last check never got into the log."""
        version, epoch = self._checked.get(group.group_id, (None, 0))
        return version != world.version or group.epoch < epoch

    def note(self, group: ConsumerGroup, world: World) -> None:
        """Note that the group, in this epoch, knows these topics."""
        self._checked[group.group_id] = (world.version, group.epoch)

    def forget(self, group_id: str) -> None:
        """Have the group checked again."""
        self._checked.pop(group_id, None)

    def clear(self) -> None:
        """Forget all."""
        self._checked.clear()


def hash_of(group: ConsumerGroup, world: World) -> int:
    """Give the hash of the topics that the group reads."""
    return group_hash(world.hashes_of(group.subscribed_topics()))


def change_regex(draft: Draft, before: ConsumerMember, after: ConsumerMember, world: World) -> bool:
    """Take in that a member asks for another regular expression, which stands in the draft already.

    Gives whether that alone changes what the group reads; INVALID_REGULAR_EXPRESSION.
    """
    old, new = before.regex, after.regex
    if (old or "") == (new or ""):
        return False
    group = draft.group
    if old and old not in group.asked.regexes and old in group.resolved:
        draft.write(records.resolved_tombstone(group.group_id, old))
    if not new:
        return True
    if group.asked.regexes[new] == 1:
        world.patterns.check(new)
    return new in group.resolved


def refresh_regexes(draft: Draft, world: World, refresh_interval_ms: int, now_ms: int) -> bool:
    """Resolve the group's regular expressions when that is due; gives whether topics came or went by it."""
    group = draft.group
    if not group.asked.regexes:
        return False
    last_ms = max((one.resolved_ms for one in group.resolved.values()), default=None)
    if last_ms is not None:
        if now_ms <= last_ms + REGEX_MIN_INTERVAL_MS:
            return False
        version = min(one.version for one in group.resolved.values())
        unresolved = any(regex not in group.resolved for regex in group.asked.regexes)
        if not unresolved and version >= world.new_topics_version and now_ms <= last_ms + refresh_interval_ms:
            return False
    changed = False
    for regex in sorted(group.asked.regexes):
        one = ResolvedRegex(world.patterns.match(regex), world.version, now_ms)
        old = group.resolved.get(regex)
        changed |= (old.topics if old is not None else frozenset()) != one.topics
        draft.write(records.resolved(group.group_id, regex, one))
    return changed


def begin_epoch(draft: Draft, world: World, *, changed: bool, seen: Seen) -> None:
    """Begin a group epoch when the subscriptions changed, or the topics did."""
    group = draft.group
    metadata_hash = hash_of(group, world)
    if changed or metadata_hash != group.metadata_hash:
        draft.write(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
    seen.note(draft.group, world)
    if group.has_topics_record:
        draft.write(records.topics_tombstone(group.group_id))
