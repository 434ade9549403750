"""What `${file:PATH:key}`, `${dir:PATH:name}` and `${env:NAME}` in a connector's configuration stand for.

Connectors are configured by whoever may use the REST API, while files and environment are the worker's: so a reference
works only by a provider that the worker's operator has named in `config.providers`, within what
`config.providers.NAME.param.allowed.paths` and `.param.allowlist.pattern` leave open (KIP-297, KIP-421). References
are resolved where the values are used, and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from barnabas.client.config import load_properties_file
from barnabas.model.config import ConfigError, parse_list

Provider = Callable[[str, str], str | None]
"""Gives the value of a key at a path, None where there is none; ConfigError when it may not or cannot."""
_REFERENCE: Final = re.compile(r"\$\{([^${}:]*):(?:([^}:]*):)?([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The providers that the worker has, by the names that references call them by."""

    providers: Mapping[str, Provider] = field(default_factory=dict)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Secrets:
        """Give what a worker's properties provide; ConfigError for a provider that is not known or is set up wrong."""
        providers = {}
        for name in parse_list(properties.get("config.providers", "")):
            prefix = f"config.providers.{name}."
            settings = {key[len(prefix) :]: text for key, text in properties.items() if key.startswith(prefix)}
            kind = settings.get("class", name).rpartition(".")[2]
            make = _KINDS.get(kind)
            if make is None:
                raise ConfigError(
                    f"{prefix}class: {kind!r} is unknown; want {', '.join(k for k in _KINDS if k.endswith('Provider'))}"
                )
            params = {key.removeprefix("param."): text for key, text in settings.items() if key.startswith("param.")}
            providers[name] = make(prefix + "param.", params)
        return cls(providers)

    def resolve(self, text: str) -> str:
        """Give a text with its references replaced; ConfigError names one that stands for nothing, or is not allowed.

        What merely looks like a reference stays as it is. What comes out holds none that anything later would resolve.
        """
        resolved = _REFERENCE.sub(self._one, text)
        if any(match[1] in _KINDS for match in _REFERENCE.finditer(resolved)):
            raise ConfigError("what a reference stands for makes another reference")
        return resolved

    def resolve_all(self, config: Mapping[str, str]) -> dict[str, str]:
        """Give a configuration with the references in its values replaced; ConfigError names the key as well."""
        out = {}
        for key, text in config.items():
            try:
                out[key] = self.resolve(text)
            except ConfigError as e:
                raise ConfigError(f"{key}: {e}") from None
        return out

    def _one(self, match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        provider = self.providers.get(name)
        if provider is None:
            if name in _KINDS:
                raise ConfigError(f"{match[0]}: this worker's config.providers does not have {name}")
            return match[0]
        value = provider(path, key)
        if value is None:
            raise ConfigError(f"{match[0]}: there is no {key!r}" + (f" in {path}" if path else ""))
        return value


def _files(prefix: str, params: Mapping[str, str]) -> Provider:
    """Keys of properties files."""
    return partial(_from_file, _allowed(prefix, params))


def _directories(prefix: str, params: Mapping[str, str]) -> Provider:
    """Files of folders, whole, such as the secrets that containers are given."""
    return partial(_from_directory, _allowed(prefix, params))


def _environment(prefix: str, params: Mapping[str, str]) -> Provider:
    """Variables of the worker's environment."""
    try:
        pattern = re.compile(params.get("allowlist.pattern", ".*"))
    except re.error as e:
        raise ConfigError(f"{prefix}allowlist.pattern is no regular expression: {e}") from None
    return partial(_from_environment, pattern)


_KINDS: Final[Mapping[str, Callable[[str, Mapping[str, str]], Provider]]] = {
    "file": _files,
    "dir": _directories,
    "env": _environment,
    "FileConfigProvider": _files,
    "DirectoryConfigProvider": _directories,
    "EnvVarConfigProvider": _environment,
}


def _allowed(prefix: str, params: Mapping[str, str]) -> tuple[Path, ...]:
    """Give the folders and files that may be read; all where none is named."""
    paths = tuple(Path(os.path.normpath(text)) for text in parse_list(params.get("allowed.paths", "")))
    for path in paths:
        if not path.is_absolute() or not path.exists():
            raise ConfigError(f"{prefix}allowed.paths: {str(path)!r} is no absolute path of something that is there")
    return paths


def _checked(path: str, allowed: tuple[Path, ...]) -> Path:
    normal = Path(os.path.normpath(path))
    if allowed and not any(normal.is_relative_to(root) for root in allowed):
        raise ConfigError(f"the path {path} is not among this worker's allowed.paths")
    return normal


def _from_file(allowed: tuple[Path, ...], path: str, key: str) -> str | None:
    return load_properties_file(_checked(path, allowed)).get(key) if path else None


def _from_directory(allowed: tuple[Path, ...], path: str, name: str) -> str | None:
    if not path or "/" in name or name in ("", ".", ".."):
        return None
    file = _checked(path, allowed) / name
    try:
        return file.read_text(encoding="utf-8") if file.is_file() else None
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"cannot read {file}: {getattr(e, 'strerror', None) or 'it is not UTF-8 text'}") from None


def _from_environment(pattern: re.Pattern[str], path: str, name: str) -> str | None:
    if path:
        raise ConfigError(f"a variable of the environment has no path, such as {path}")
    return os.environ.get(name) if pattern.fullmatch(name) else None
