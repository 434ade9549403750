"""JAAS as text: a login module, a control flag, options, a semicolon; alone in `sasl.jaas.config`, or by sections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PLAIN_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER_PREFIX: Final = "user_"


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module with its options; these hold passwords, so they stay out of the repr."""

    name: str
    control_flag: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        """The user that a client, or a broker towards other brokers, logs in as."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        """The password that belongs to `username`."""
        return self.options.get("password")

    @property
    def by_token(self) -> bool:
        """Whether `username` and `password` are a delegation token's id and HMAC (`tokenauth="true"`, KIP-48)."""
        return self.options.get("tokenauth", "").lower() == "true"

    def user_passwords(self) -> dict[str, str]:
        """Give user -> password from a server's `user_NAME="PASSWORD"` options of PLAIN."""
        start = len(_USER_PREFIX)
        return {key[start:]: value for key, value in self.options.items() if key.startswith(_USER_PREFIX)}


class JaasError(ValueError):
    """The text is not a JAAS entry; the message never quotes a value of it."""


def parse_jaas(text: str) -> LoginModule:
    """Give the one login module that `text` describes; JaasError when there is none, or another one after it."""
    tokens = _tokens(text)
    if not tokens:
        raise JaasError("no login module: want 'MODULE required option=\"value\";'")
    module, end = _module(tokens, 0)
    if end != len(tokens):
        raise JaasError("more than one login module: want one")
    return module


def parse_jaas_sections(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Give section -> login modules of a JAAS file, as in `Client { MODULE required; };`; JaasError when it is none."""
    tokens, at = _tokens(text), 0
    found: dict[str, tuple[LoginModule, ...]] = {}
    while at < len(tokens):
        name = tokens[at][1]
        if tokens[at][0] == "mark" or tokens[at + 1 : at + 2] != [("mark", "{")]:
            raise JaasError(f"a section is expected where {name!r} stands: want 'NAME {{ MODULE required; }};'")
        if name in found:
            raise JaasError(f"section {name!r} stands twice")
        modules, at = _modules(tokens, at + 2, name)
        found[name] = modules
    return found


def format_jaas(module: str, options: Mapping[str, str]) -> str:
    """Give the entry that `parse_jaas` reads back, all values quoted."""
    body = " ".join(f'{key}="{_escape(value)}"' for key, value in options.items())
    return f"{module} required {body};" if body else f"{module} required;"


def _modules(tokens: list[tuple[str, str]], at: int, section: str) -> tuple[tuple[LoginModule, ...], int]:
    modules: list[LoginModule] = []
    while tokens[at : at + 1] != [("mark", "}")]:
        if at >= len(tokens):
            raise JaasError(f"section {section!r} does not end: want '}};'")
        module, at = _module(tokens, at)
        modules.append(module)
    if tokens[at + 1 : at + 2] != [("mark", ";")]:
        raise JaasError(f"section {section!r} does not end with a semicolon after its '}}'")
    return tuple(modules), at + 2


def _module(tokens: list[tuple[str, str]], at: int) -> tuple[LoginModule, int]:
    name, flag = tokens[at], tokens[at + 1 : at + 2]
    if name[0] != "word":
        raise JaasError("a JAAS entry starts with the login module's class name")
    if not flag or flag[0][1].lower() not in CONTROL_FLAGS:
        raise JaasError(f"the login module is followed by one of {', '.join(CONTROL_FLAGS)}")
    options, end = _options(tokens, at + 2)
    return LoginModule(name[1], flag[0][1].lower(), options), end


def _options(tokens: list[tuple[str, str]], at: int) -> tuple[dict[str, str], int]:
    options: dict[str, str] = {}
    while at < len(tokens) and tokens[at] != ("mark", ";"):
        key = tokens[at]
        if key[0] == "mark":
            raise JaasError(f"an option name is expected where {key[1]!r} stands")
        value = tokens[at + 1 : at + 3]
        if len(value) < 2 or value[0] != ("mark", "=") or value[1][0] == "mark":
            raise JaasError(f'option {key[1]!r} has no value: want {key[1]}="value"')
        options[key[1]] = value[1][1]
        at += 3
    if at >= len(tokens):
        raise JaasError("the entry does not end with a semicolon")
    return options, at + 1


# Java's StreamTokenizer, as JAAS uses it: quoted strings in either quote, bare words, // and /* */ comments, and
# '/' alone starting a comment to the end of the line.
_TOKEN: Final = re.compile(
    r"(?P<space>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/|/[^\r\n]*)"
    r"|\"(?P<double>(?:[^\"\\\r\n]|\\.)*)\""
    r"|'(?P<single>(?:[^'\\\r\n]|\\.)*)'"
    r"|(?P<word>[A-Za-z0-9_$.\-\u00a0-\U0010ffff]+)"
    r"|(?P<mark>.)",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", re.DOTALL)
_ESCAPES: Final = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\x0b"}


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind in ("double", "single"):
            found.append(("text", _ESCAPE.sub(_unescape, match[kind])))
        elif kind != "space":
            found.append((kind, match[kind]))
    return found


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 8))
    return _ESCAPES.get(match[2], match[2])


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
