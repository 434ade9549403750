"""`barnabas client-metrics`: what its flags may be together. What it does: `test_own_node.py`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Barnabas


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "--alter, --delete, --describe"),
        ("--alter --list", "--alter"),
        ("--alter --interval 1000", "--name or --generate-name"),
        ("--alter --name a --generate-name", "--name or --generate-name"),
        ("--alter --name a --interval soon", "whole number"),
        ("--delete", "--name"),
        ("--delete --name a --metrics b", "--metrics goes with --alter"),
        ("--describe --interval 5", "--interval goes with --alter"),
        ("--list --name a", "leave --name out"),
        ("--list --generate-name", "--generate-name goes with --alter"),
    ],
)
def test_flags_that_do_not_go_together(barnabas: Barnabas, words: str, why: str) -> None:
    run = barnabas("client-metrics", "--bootstrap-server", "localhost:1", *words.split())
    assert run.code != 0
    assert why in run.err
