"""Kerberos names and the users that they stand for: `sasl.kerberos.principal.to.local.rules`, as Kafka reads them.

A rule is DEFAULT, which takes the first component of names of the default realm, or
`RULE:[n:format](match)s/from/to/g/L`: for names of n components; `$0` in the format is the realm, `$1` and `$2` the
components; what the format gives must match, is edited, and put into lower (L) or upper (U) case. The first rule that
gives a name counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.core.sasl.java_patterns import JavaPatternError, compile_java, replace_java

KEY: Final = "sasl.kerberos.principal.to.local.rules"
_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<components>\d*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<repeat>g)?)?/?(?P<case>L|U)?",
    re.ASCII,
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_NOT_SIMPLE: Final = re.compile(r"[/@]")
_MAX_INT: Final = (1 << 31) - 1
_CASES: Final[dict[str | None, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, None: str}


class KerberosNameError(ValueError):
    """A name is malformed, or the rules give no user for it."""


class KerberosRuleError(ValueError):
    """A rule is malformed."""


@dataclass(frozen=True, slots=True)
class KerberosName:
    """`service/host@REALM`; host and realm may be absent."""

    service: str
    host: str | None = None
    realm: str | None = None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Give the parts of a name of at most two components; KerberosNameError when it has more."""
        match = _NAME.fullmatch(text)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in text:
            raise KerberosNameError(f"{text!r} is not a Kerberos name of one or two components and a realm")
        return cls(text)

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return f"{self.service}{host}" + ("" if self.realm is None else f"@{self.realm}")


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    default: bool
    components: int = 0
    format: str = ""
    match: re.Pattern[str] | None = None
    edit: re.Pattern[str] | None = None
    replacement: str = ""
    repeat: bool = False
    case: str | None = None

    def apply(self, params: Sequence[str], default_realm: str) -> str | None:
        """params: realm and components."""
        if self.default:
            found = params[1] if params[0] == default_realm else None
        elif len(params) - 1 != self.components:
            return None
        else:
            found = self._edited(self._formatted(params))
        if found is not None and _NOT_SIMPLE.search(found):
            raise KerberosNameError(f"{KEY}: rule {self.text} gives {found!r}, and no user may have / or @ in its name")
        return None if found is None else _CASES[self.case](found)

    def problem(self) -> str | None:
        """Give what will always go wrong with this rule."""
        if self.default:
            return None
        if not 1 <= self.components <= 2:
            return f"no name has {self.components} components; want [1:...] or [2:...]"
        try:
            self._formatted(("",) * (self.components + 1))
            if self.edit is not None:
                replace_java(self.edit, "", self.replacement, repeat=False, check=True)
        except ValueError as e:
            return str(e)
        return None

    def _formatted(self, params: Sequence[str]) -> str:
        def one(match: re.Match[str]) -> str:
            if not match[1] or int(match[1]) > _MAX_INT:
                raise KerberosNameError(f"{KEY}: rule {self.text}: ${match[1]} is none of $0 to ${len(params) - 1}")
            number = int(match[1])
            if number >= len(params):
                raise KerberosNameError(f"{KEY}: rule {self.text}: there are only $0 to ${len(params) - 1}")
            return params[number]

        return _PARAMETER.sub(one, self.format)

    def _edited(self, base: str) -> str | None:
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.edit is None:
            return base
        try:
            return replace_java(self.edit, base, self.replacement, repeat=self.repeat)
        except JavaPatternError as e:
            raise KerberosNameError(f"{KEY}: rule {self.text}: {e}") from None


class ShortNamer:
    """The rules of a listener."""

    __slots__ = ("_rules", "default_realm")

    def __init__(self, default_realm: str, rules: Sequence[_Rule]) -> None:
        self.default_realm = default_realm
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, default_realm: str, rules: Sequence[str] = ("DEFAULT",)) -> ShortNamer:
        """Give the namer that the rules describe; KerberosRuleError for one that cannot be read."""
        return cls(default_realm, [_parse(text) for text in rules])

    @property
    def problems(self) -> list[str]:
        """What will always go wrong, though Kafka finds it out only when the rule's turn comes."""
        found = ((rule.text, rule.problem()) for rule in self._rules)
        return [problem if text in problem else f"{KEY}: rule {text}: {problem}" for text, problem in found if problem]

    def short_name(self, name: str) -> str:
        """Give the user for a Kerberos name; KerberosNameError when there is none."""
        parsed = KerberosName.parse(name)
        if parsed.realm is None:
            return parsed.service
        params = [parsed.realm, parsed.service, *(() if parsed.host is None else (parsed.host,))]
        for rule in self._rules:
            found = rule.apply(params, self.default_realm)
            if found is not None:
                return found
        rules = ", ".join(rule.text for rule in self._rules) or "none"
        hint = "" if parsed.realm == self.default_realm else f"; the default realm is {self.default_realm or 'none'}"
        raise KerberosNameError(f"no rule of {KEY} ({rules}) applies to {name!r}{hint}")


def _parse(text: str) -> _Rule:
    match = _RULE.match(text)
    if match is None:
        raise KerberosRuleError(
            f"{KEY}: {text!r} is not a rule; want DEFAULT or RULE:[n:format](match)s/from/to/g/L, all after ] optional"
        )
    if match.end() != len(text):
        raise KerberosRuleError(f"{KEY}: {text!r}: {text[match.end() :]!r} at its end is not part of a rule")
    if match["default"]:
        return _Rule(text, default=True)
    if not match["components"] or int(match["components"]) > _MAX_INT:
        raise KerberosRuleError(f"{KEY}: {text!r}: [ is followed by the number of components, as in [1:$1]")
    try:
        pattern, edit = (None if match[g] is None else compile_java(match[g]) for g in ("match", "from"))
    except JavaPatternError as e:
        raise KerberosRuleError(f"{KEY}: {text!r}: {e}") from None
    return _Rule(
        text,
        default=False,
        components=int(match["components"]),
        format=match["format"],
        match=pattern,
        edit=edit,
        replacement=match["to"] or "",
        repeat=match["repeat"] is not None,
        case=match["case"],
    )
