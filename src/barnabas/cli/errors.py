"""How a command says that it could not do what was asked."""

from __future__ import annotations


class CliError(Exception):
    """A refusal for the person at the keyboard: printed to stderr without a trace. code: the exit code."""

    def __init__(self, text: str, *, code: int = 1) -> None:
        super().__init__(text)
        self.code = code
