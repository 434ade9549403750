"""How a command says that it could not do what was asked."""

from __future__ import annotations


class CliError(Exception):
    """A refusal for the person at the keyboard: printed to stderr without a trace, exit code 1."""
