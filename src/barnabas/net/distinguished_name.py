"""Certificate names: printed as Java prints them (RFC 2253), and mapped to principals by Kafka's rules (KIP-371)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.net.der import SEQUENCE, SET, dotted, elements, one

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The only attribute types that RFC 2253 gives a keyword; Java prints every other one as OID=#hex."""
_STRING_TAGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E))
_SPECIAL: Final = frozenset(',=+<>#;"\\')


def format_name(der: bytes) -> str:
    """Give a DER-encoded name as Java's X500Principal.getName() does, the last component first: `CN=alice,O=Ex`.

    ValueError when it is no name.
    """
    components = [content for tag, content, _ in elements(one(der, SEQUENCE)) if tag == SET]
    return ",".join("+".join(map(_attribute, _sequences(rdn))) for rdn in reversed(components))


def _sequences(data: bytes) -> list[bytes]:
    return [content for tag, content, _ in elements(data) if tag == SEQUENCE]


def _attribute(data: bytes) -> str:
    (_, type_content, _), (tag, content, whole) = elements(data)
    oid = dotted(type_content)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _STRING_TAGS:
        return f"{keyword or oid}=#{whole.hex()}"
    # Java reads every string type as UTF-8 here, two-byte ones included; rules and ACLs are written for what it prints.
    return f"{keyword}={_escape(content.decode('utf-8', 'replace'))}"


def _escape(value: str) -> str:
    escaped = ["\\" + char if char in _SPECIAL else "\\00" if char == "\x00" else char for char in value]
    leading = len(value) - len(value.lstrip(" "))
    trailing = len(value.rstrip(" "))
    for at in range(len(value)):
        if value[at] == " " and (at < leading or at >= trailing):
            escaped[at] = "\\ "
    return "".join(escaped)


class PrincipalMappingError(ValueError):
    """No rule applies to a name, or a rule is malformed."""


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    pattern: re.Pattern[str] | None
    replacement: str = ""
    change_case: Callable[[str], str] = str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return self.change_case(self.pattern.sub(lambda match: _expand(self.replacement, match), name))


class PrincipalMapper:
    """`ssl.principal.mapping.rules`: the first rule that applies gives the principal's name."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, rules: str | Sequence[str] = "DEFAULT") -> PrincipalMapper:
        """Give the mapper that `ssl.principal.mapping.rules` describes; PrincipalMappingError for a malformed rule."""
        return cls(_parse(rules if isinstance(rules, str) else ",".join(rules)))

    def map(self, name: str) -> str:
        """Give the principal's name for a certificate's; PrincipalMappingError when no rule applies."""
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return mapped
        rules = ", ".join(rule.text for rule in self._rules) or "none"
        raise PrincipalMappingError(f"no rule of ssl.principal.mapping.rules applies to {name!r}; rules: {rules}")


_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))?"
    r"\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}", re.DOTALL)
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


def _parse(rules: str) -> list[_Rule]:
    found: list[_Rule] = []
    at = 0
    while at < len(rules):
        match = _RULE.match(rules, at)
        if match is None:
            raise PrincipalMappingError(
                f"ssl.principal.mapping.rules={rules}: {rules[at:]!r} is not a rule; "
                "want DEFAULT or RULE:pattern/replacement/ with L or U after it"
            )
        at = match.end()
        text = match[0].strip().rstrip(",").strip()
        if match["default"]:
            found.append(_Rule(text, None))
        elif match["pattern"] is not None:
            found.append(_Rule(text, _compile(match["pattern"], rules), match["replacement"], _CASES[match["case"]]))
    return found


def _compile(pattern: str, rules: str) -> re.Pattern[str]:
    try:
        # Java writes named groups (?<name>...), Python (?P<name>...); otherwise the syntaxes agree for such rules.
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern))
    except re.error as e:
        raise PrincipalMappingError(f"ssl.principal.mapping.rules={rules}: {pattern!r}: {e}") from None


def _expand(replacement: str, match: re.Match[str]) -> str:
    groups = match.re.groups

    def one_reference(reference: re.Match[str]) -> str:
        if reference["literal"] is not None:
            return reference["literal"]
        if reference["name"] is not None:
            return match[reference["name"]] or ""
        digits, rest = reference["number"], ""
        # As many digits as name a group; what is left over is text, and a number that names none stays as it is.
        while len(digits) > 1 and int(digits) > groups:
            digits, rest = digits[:-1], digits[-1] + rest
        if int(digits) > groups:
            return "$" + digits + rest
        return (match[int(digits)] or "") + rest

    return _REFERENCE.sub(one_reference, replacement)
