"""`barnabas produce`: kafka-console-producer with its flags."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.connection import Bootstrap, CommandConfig, client_config, pairs, require, run
from barnabas.cli.errors import CliError
from barnabas.cli.produce.lines import LineReader
from barnabas.cli.tables import progress
from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer

_Pairs = list[str] | None
_CHUNK_BYTES = 1 << 16


def command(
    bootstrap_server: Bootstrap = None,
    command_config: CommandConfig = None,
    producer_config: Annotated[
        Path | None, typer.Option("--producer.config", metavar="FILE", help="The same as --command-config.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Where to.")] = None,
    reader_property: Annotated[
        _Pairs,
        typer.Option(
            "--reader-property",
            "--property",
            metavar="KEY=VALUE",
            help="How lines are read: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
            "headers.key.separator, null.marker, ignore.error.",
        ),
    ] = None,
    command_property: Annotated[
        _Pairs,
        typer.Option("--command-property", "--producer-property", metavar="KEY=VALUE", help="A client setting."),
    ] = None,
    compression_codec: Annotated[str | None, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = None,
    request_required_acks: Annotated[str | None, typer.Option(help="0, 1 or all.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Bytes of a batch.")] = None,
    timeout: Annotated[int | None, typer.Option(help="How long a batch waits for more lines, ms.")] = None,
    sync: Annotated[bool, typer.Option("--sync", help="Wait for each record before the next.")] = False,
) -> None:
    """Write lines from standard input to a topic, a record each, as kafka-console-producer does.

    Examples:

      echo hello | barnabas produce --bootstrap-server localhost:9092 --topic greetings

      barnabas produce --command-config client.properties --topic scores
      --reader-property parse.key=true --reader-property key.separator=: < scores.txt
    """
    name = require(topic, "--topic", "the topic to write to")
    reader = LineReader.configured(pairs(reader_property, "--reader-property"))
    flags = {
        "compression.type": compression_codec,
        "acks": request_required_acks,
        "batch.size": batch_size,
        "linger.ms": timeout,
    }
    settings = pairs(command_property, "--command-property")
    settings |= {key: str(value) for key, value in flags.items() if value is not None}
    config = client_config(bootstrap_server, command_config or producer_config, {"linger.ms": "0" if sync else "1000"})
    config = ClientConfig.from_properties({**config.properties, **settings})
    run(config, lambda: _produce(config, name, reader, sync), needs=f"Write on topic {name!r}")


async def _produce(config: ClientConfig, topic: str, reader: LineReader, sync: bool) -> None:
    failures: list[Exception] = []
    interactive = sys.stdin.isatty()
    async with Producer(config, on_failure=lambda _, __, error: failures.append(error)) as producer:
        with progress("Producing") as steps:
            async for line in _lines(interactive):
                record = reader.read(line)
                delivery = await producer.send(topic, record.value, key=record.key, headers=record.headers)
                if sync:
                    await delivery
                steps.advance()
                if failures:
                    break
        await producer.flush()
    if failures:
        raise failures[0]


async def _lines(interactive: bool) -> AsyncIterator[bytes]:
    """Give the lines of stdin, read on a thread so that batches leave while nobody types."""
    rest = b""
    prompt = b">" if interactive else b""
    while True:
        if prompt:
            sys.stdout.buffer.write(prompt)
            sys.stdout.buffer.flush()
        chunk = await asyncio.to_thread(_read)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


def _read() -> bytes:
    try:
        read1 = sys.stdin.buffer.read1  # type: ignore[union-attr]
        chunk: bytes = read1(_CHUNK_BYTES)
    except OSError as e:
        raise CliError(f"Cannot read standard input: {e.strerror}.") from None
    return chunk
