"""Paths to fields in the syntax V2 of KIP-821: names with dots between, and backticks around names that have dots."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.model.config import ConfigError


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The names on the way to a field."""

    steps: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> FieldPath:
        """Give the path of a text; ConfigError where a backtick is never closed, or closes before a name is over."""
        steps: list[str] = []
        at = 0
        while True:
            if text[at : at + 1] == "`":
                end = _closing(text, at)
                steps.append(text[at + 1 : end].replace("\\`", "`"))
                at = end + 1
            else:
                end = text.find(".", at)
                end = len(text) if end < 0 else end
                steps.append(text[at:end])
                at = end
            if at >= len(text):
                return cls(tuple(steps))
            at += 1

    @property
    def variant_path(self) -> str:
        """Give the path as `variant_get` has it."""
        escaped = (step.replace("\\", "\\\\").replace('"', '\\"') for step in self.steps)
        return "$" + "".join(f'["{step}"]' for step in escaped)


def _closing(text: str, opening: int) -> int:
    at = opening
    while True:
        at = text.find("`", at + 1)
        if at < 0:
            raise ConfigError(f"the path {text!r} has a backtick at {opening} that is never closed")
        if text[at - 1] != "\\" and (at + 1 == len(text) or text[at + 1] == "."):
            return at
