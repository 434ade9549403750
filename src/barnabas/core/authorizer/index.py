"""Rules, arranged so that a question costs what the rules that answer it cost, however many others there are.

Two views of the same rules, both persistent maps, so that a change copies a path and readers keep what they hold:

- by resource: literal name or prefix -> (principal, host) -> the operations granted and refused, as one number.
  A name is asked for in the literal map, then with each of its beginnings that is as long as some prefix.
- by subject: (principal, host) -> kind of rule -> names, for the question whether there is any resource at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass, field
from typing import Final, TypeVar

from immutables import Map, MapMutation

from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourceType

Subject = tuple[str, str]
"""(principal, host), as the rule spells them."""
Rules = Map[Subject, int]
"""What the rules on one pattern say, for each subject: bit n grants operation n, bit n + DENY_SHIFT refuses it."""
DENY_SHIFT: Final = 1 + max(AclOperation)

LITERAL: Final = PatternType.LITERAL
PREFIXED: Final = PatternType.PREFIXED
_NO_RULES: Final[Rules] = Map()
_NO_NAMES: Final[Map[str, None]] = Map()
_NO_KINDS: Final[Map[int, Map[str, None]]] = Map()


def bit(operation: AclOperation, permission: AclPermissionType) -> int:
    """Give the number that stands for one rule among its subject's."""
    return 1 << (operation + DENY_SHIFT if permission is AclPermissionType.DENY else operation)


def facet(operation: int, permission: AclPermissionType, pattern_type: PatternType) -> int:
    """Give the number of one kind of rule in the view by subject."""
    return (operation << 2) | (2 if permission is AclPermissionType.DENY else 0) | (pattern_type is PREFIXED)


@dataclass(frozen=True, slots=True)
class TypeIndex:
    """The rules on one type of resource. lengths: those of its prefixes, ascending, with how many have each."""

    literal: Map[str, Rules] = field(default_factory=Map)
    prefixed: Map[str, Rules] = field(default_factory=Map)
    lengths: tuple[int, ...] = ()
    length_counts: Map[int, int] = field(default_factory=Map)
    by_subject: Map[Subject, Map[int, Map[str, None]]] = field(default_factory=Map)

    def prefixes_of(self, name: str) -> Iterator[tuple[str, Rules]]:
        """Give the prefixes that cover `name` with their rules, the longest first."""
        lengths, prefixed = self.lengths, self.prefixed
        for length in reversed(lengths[: bisect_right(lengths, len(name))]):
            prefix = name[:length]
            rules = prefixed.get(prefix)
            if rules is not None:
                yield prefix, rules

    def updated(self, removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> TypeIndex:
        """Give the index after a change; ValueError for a rule that is missing, or there already."""
        change = _Change(self)
        for binding in removed:
            change.remove(binding)
        for binding in added:
            change.add(binding)
        return change.finish()


class _Change:
    """A change of many rules at once: what it touches is opened for writing once, and closed at the end.

    Most patterns have rules about one subject only, and many say the same of it: those share one map.
    """

    def __init__(self, index: TypeIndex) -> None:
        self._index = index
        self._names = {LITERAL: index.literal, PREFIXED: index.prefixed}
        self._rules: dict[tuple[PatternType, str], MapMutation[Subject, int]] = {}
        self._new: dict[tuple[PatternType, str], tuple[Subject, int]] = {}
        """What is said on a pattern that had no rule, as long as it is about one subject."""
        self._held: dict[tuple[Subject, int], MapMutation[str, None]] = {}

    def add(self, binding: AclBinding) -> None:
        pattern_type, name = _known(binding.pattern.pattern_type), binding.pattern.name
        subject = binding.principal, binding.host
        one = bit(binding.operation, binding.permission_type)
        key = pattern_type, name
        new = self._new.get(key)
        unheard = new is None and key not in self._rules and name not in self._names[pattern_type]
        rules = None if unheard or (new is not None and new[0] == subject) else self._open(key)
        before = (0 if new is None else new[1]) if rules is None else rules.get(subject, 0)
        if before & one:
            raise ValueError(f"the rule is there already: {binding}")
        if rules is None:
            self._new[key] = subject, before | one
        else:
            rules[subject] = before | one
        self._names_held(binding, subject)[name] = None

    def remove(self, binding: AclBinding) -> None:
        pattern_type, name = _known(binding.pattern.pattern_type), binding.pattern.name
        subject = binding.principal, binding.host
        one = bit(binding.operation, binding.permission_type)
        rules = self._open((pattern_type, name))
        before = rules.get(subject, 0)
        if not before & one:
            raise ValueError(f"there is no such rule: {binding}")
        if before == one:
            del rules[subject]
        else:
            rules[subject] = before ^ one
        del self._names_held(binding, subject)[name]

    def _open(self, key: tuple[PatternType, str]) -> MapMutation[Subject, int]:
        """Give the rules on a pattern, to be written."""
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = self._names[key[0]].get(key[1], _NO_RULES).mutate()
            new = self._new.pop(key, None)
            if new is not None:
                rules[new[0]] = new[1]
        return rules

    def _names_held(self, binding: AclBinding, subject: Subject) -> MapMutation[str, None]:
        """Give the names on which the subject has a rule of the binding's kind, to be written."""
        kind = facet(binding.operation, binding.permission_type, binding.pattern.pattern_type)
        held = self._held.get((subject, kind))
        if held is None:
            held = self._index.by_subject.get(subject, _NO_KINDS).get(kind, _NO_NAMES).mutate()
            self._held[subject, kind] = held
        return held

    def finish(self) -> TypeIndex:
        names = {pattern_type: rules.mutate() for pattern_type, rules in self._names.items()}
        lengths = self._index.length_counts.mutate()
        for (pattern_type, name), mutation in self._rules.items():
            rules = mutation.finish()
            grown = bool(rules) - (name in names[pattern_type])
            _put(names[pattern_type], name, rules)
            if pattern_type is PREFIXED and grown:
                count = lengths.get(len(name), 0) + grown
                if count:
                    lengths[len(name)] = count
                else:
                    del lengths[len(name)]
        shared: dict[tuple[Subject, int], Rules] = {}
        for (pattern_type, name), said in self._new.items():
            same = shared.get(said)
            if same is None:
                same = shared[said] = Map([said])
            names[pattern_type][name] = same
            if pattern_type is PREFIXED:
                lengths[len(name)] = lengths.get(len(name), 0) + 1
        counts = lengths.finish()
        return TypeIndex(
            literal=names[LITERAL].finish(),
            prefixed=names[PREFIXED].finish(),
            length_counts=counts,
            lengths=tuple(sorted(counts)),
            by_subject=self._finish_subjects(),
        )

    def _finish_subjects(self) -> Map[Subject, Map[int, Map[str, None]]]:
        subjects: dict[Subject, MapMutation[int, Map[str, None]]] = {}
        for (subject, kind), held in self._held.items():
            kinds = subjects.get(subject)
            if kinds is None:
                kinds = subjects[subject] = self._index.by_subject.get(subject, _NO_KINDS).mutate()
            _put(kinds, kind, held.finish())
        by_subject = self._index.by_subject.mutate()
        for subject, mutation in subjects.items():
            _put(by_subject, subject, mutation.finish())
        return by_subject.finish()


K = TypeVar("K")
V = TypeVar("V", bound=Sized)


def _put(into: MapMutation[K, V], key: K, value: V) -> None:
    """Set what holds something, remove what has become empty."""
    if len(value):
        into[key] = value
    elif key in into:
        del into[key]


def _known(pattern_type: PatternType) -> PatternType:
    if pattern_type not in (LITERAL, PREFIXED):
        raise ValueError(f"a rule's pattern is LITERAL or PREFIXED, not {pattern_type.name}")
    return pattern_type


@dataclass(frozen=True, slots=True)
class AclIndex:
    """Every rule, by type of resource."""

    types: tuple[TypeIndex, ...] = (TypeIndex(),) * (1 + max(ResourceType))

    def updated(self, removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> AclIndex:
        """Give the index after a change; ValueError for a rule that is missing, or there already."""
        changes: dict[ResourceType, tuple[list[AclBinding], list[AclBinding]]] = {}
        for which, bindings in enumerate((removed, added)):
            for binding in bindings:
                changes.setdefault(binding.pattern.resource_type, ([], []))[which].append(binding)
        types = list(self.types)
        for resource_type, change in changes.items():
            types[resource_type] = types[resource_type].updated(*change)
        return AclIndex(tuple(types))
