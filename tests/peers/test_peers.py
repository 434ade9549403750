"""The real peers themselves come up and answer, over each kind of listener."""

from __future__ import annotations

import pytest

from .kafka import RealKafka
from .tools import STORAGE_TOOL, TOPIC_COMMAND, ToolError, run_tool, run_tool_result

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def test_kafkas_topic_command_reaches_each_listener(real_kafka: RealKafka, protocol: str) -> None:
    run_tool(
        TOPIC_COMMAND,
        *("--bootstrap-server", real_kafka.bootstrap(protocol)),
        *("--command-config", str(real_kafka.client_config(protocol))),
        "--list",
    )


def test_a_tool_that_fails_says_so() -> None:
    assert run_tool_result(TOPIC_COMMAND, "--nonsense").code == 1
    with pytest.raises(ToolError, match="nonsense"):
        run_tool(TOPIC_COMMAND, "--nonsense")


def test_the_warm_jvm_gives_each_tool_its_own_output() -> None:
    first, second = run_tool(STORAGE_TOOL, "random-uuid"), run_tool(STORAGE_TOOL, "random-uuid")
    assert len(first.strip()) == len(second.strip()) == 22
    assert first != second
