"""`barnabas produce` and `barnabas consume` against a real Apache Kafka."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.errors import CliError
from barnabas.cli.produce.lines import LineReader, LineRecord
from tests.cli.conftest import Barnabas, create_topic
from tests.peers.kafka import RealKafka
from tests.peers.tools import CONSOLE_CONSUMER, run_tool


def test_a_line_is_cut_as_kafka_cuts_it() -> None:
    reader = LineReader.configured({"parse.key": "true", "parse.headers": "true", "null.marker": "-"})
    assert reader.read(b"a:1,b:-\tkey\tvalue\tmore") == LineRecord(b"key", b"value\tmore", [("a", b"1"), ("b", None)])
    assert reader.read(b"-\t-\t-") == LineRecord(None, None, [])
    with pytest.raises(CliError, match="Line 3 has no key separator"):
        reader.read(b"a:1\tkey")
    with pytest.raises(CliError, match=r"want one of parse\.key"):
        LineReader.configured({"parse": "x"})


@pytest.mark.peer
def test_what_is_typed_comes_out(tool: Barnabas, real_kafka: RealKafka, name: str) -> None:
    create_topic(tool, name)
    keyed = ("--reader-property", "parse.key=true", "--property", "parse.headers=true")
    produced = tool("produce", "--topic", name, *keyed, stdin="h:1\tk\tfirst\nh:2\tk\tsecond")
    assert produced.code == 0, produced.err
    assert tool("produce", "--topic", name, "--sync", "--compression-codec", "zstd", stdin="third\n").code == 0
    reading = ("--topic", name, "--from-beginning", "--max-messages", "3")
    assert tool("consume", *reading).out == "first\nsecond\nthird\n"
    printing: list[str] = []
    for what in ("timestamp", "partition", "offset", "headers", "key"):
        printing += ["--formatter-property", f"print.{what}=true"]
    server = ("--bootstrap-server", real_kafka.bootstrap())
    assert tool("consume", *reading, *printing).out == run_tool(CONSOLE_CONSUMER, *server, *reading, *printing)
    lines = [json.loads(line) for line in tool("consume", *reading, "--output", "json").out.splitlines()]
    assert [line["value"] for line in lines] == ["first", "second", "third"]
    assert lines[0]["headers"] == [["h", "1"]]
    last = tool("consume", "--topic", name, "--partition", "0", "--offset", "-1", "--max-messages", "1")
    assert last.out == "third\n"
    nothing = tool("consume", "--topic", name, "--timeout-ms", "300")
    assert (nothing.out, nothing.err) == ("", "Processed a total of 0 messages\n")


@pytest.mark.peer
def test_a_group_keeps_its_place(tool: Barnabas, name: str) -> None:
    create_topic(tool, name, "--partitions", "2")
    tool("produce", "--topic", name, stdin="a\nb\n")
    reading = ("--include", f"{name}.*", "--group", name, "--from-beginning")
    assert sorted(tool("consume", *reading, "--max-messages", "2").out.split()) == ["a", "b"]
    tool("produce", "--topic", name, stdin="c\n")
    assert tool("consume", *reading, "--max-messages", "1").out == "c\n"
    rows = tool("groups", "--describe", "--group", name, "--output", "json").json
    assert sum(row["lag"] for row in rows) == 0


@pytest.mark.peer
def test_what_goes_wrong_is_explained(tool: Barnabas, barnabas: Barnabas, real_kafka: RealKafka, name: str) -> None:
    missing = tool("consume", "--topic", name, "--timeout-ms", "1000")
    assert (missing.code, name in missing.err) == (1, True)
    create_topic(tool, name)
    alice = ("--command-config", str(real_kafka.client_config("SASL_SSL", "alice")))
    for words in (("produce", "--topic", name), ("consume", "--topic", name, "--timeout-ms", "1000")):
        denied = barnabas(*words, *alice, stdin="x\n")
        assert denied.code == 1
        assert "User:alice lacks" in denied.err
    assert "--topic is missing" in barnabas("produce").err
    assert "--topic or --include" in barnabas("consume").err
