"""Every tool explains itself, with an example to copy."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from barnabas.cli.main import COMMANDS, Command
from tests.cli.conftest import Barnabas


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.name)
def test_help_is_there(barnabas: Barnabas, command: Command) -> None:
    shown = barnabas(command.name, "--help")
    assert shown.code == 0
    assert f"Usage: barnabas {command.name}" in shown.out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.name)
def test_every_single_command_gives_an_example(command: Command) -> None:
    module = import_module(command.module)
    if hasattr(module, "command"):
        assert f"barnabas {command.name}" in (inspect.getdoc(module.command) or "")


def test_the_list_names_every_tool(barnabas: Barnabas) -> None:
    shown = barnabas("--help").out
    assert all(command.name in shown for command in COMMANDS)
