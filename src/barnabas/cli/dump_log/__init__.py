"""`barnabas dump-log`: kafka-dump-log with its flags, and with its text, so that the two can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from barnabas.cli.dump_log.decoders import DECODERS
from barnabas.cli.dump_log.indexes import dump_index, dump_snapshot, dump_time_index, dump_transaction_index
from barnabas.cli.dump_log.lines import Line, Options
from barnabas.cli.dump_log.segment import dump_segment
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat
from barnabas.wire.errors import ProtocolError

_BY_SUFFIX: Final = {
    ".log": dump_segment,
    ".checkpoint": dump_segment,
    ".index": dump_index,
    ".timeindex": dump_time_index,
    ".snapshot": dump_snapshot,
    ".txnindex": dump_transaction_index,
}


def command(  # the flags are Kafka's
    files: Annotated[
        str, typer.Option(metavar="FILE,...", help="Segments, indexes, snapshots, checkpoints, separated by commas.")
    ],
    print_data_log: Annotated[bool, typer.Option("--print-data-log", help="Print keys and values too.")] = False,
    deep_iteration: Annotated[bool, typer.Option("--deep-iteration", help="Print records, not only batches.")] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Check indexes without printing them.")
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Only look whether an index is sane at all.")
    ] = False,
    max_message_size: Annotated[int, typer.Option(help="Size of the largest batch.", hidden=True)] = 5 * 1024 * 1024,
    max_bytes: Annotated[int | None, typer.Option(help="Stop after so many bytes of a segment.")] = None,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="The records are those of __consumer_offsets.")
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option(help="The records are those of __transaction_state.")
    ] = False,
    cluster_metadata_decoder: Annotated[
        bool, typer.Option(help="The records are those of __cluster_metadata.")
    ] = False,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Only keys and values; no control records.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print what is in log segments, indexes and snapshots, and say where they contradict themselves.

    Examples:

      barnabas dump-log --files data/flights-0/00000000000000000000.log --print-data-log

      barnabas dump-log --cluster-metadata-decoder
      --files data/__cluster_metadata-0/00000000000000000000.log --output json
    """
    chosen = {
        "offsets": offsets_decoder,
        "transactions": transaction_log_decoder,
        "metadata": cluster_metadata_decoder,
    }
    if sum(chosen.values()) > 1:
        raise CliError("Give one decoder at most.")
    name = next((n for n, on in chosen.items() if on), "text")
    print_data = print_data_log or name != "text"
    options = Options(
        print_data=print_data,
        deep=deep_iteration or print_data,
        decoder=DECODERS[name],
        skip_record_metadata=skip_record_metadata,
        max_bytes=max_bytes,
        verify_only=verify_index_only,
        sanity_only=index_sanity_check,
    )
    findings: list[str] = []
    for path in (Path(f.strip()) for f in files.split(",") if f.strip()):
        _print(_lines(path, options, findings), output)
    for finding in findings:
        typer.echo(finding, err=True)


def _lines(path: Path, options: Options, findings: list[str]) -> Iterator[Line]:
    yield Line(f"Dumping {path}", {"file": str(path)})
    dump = _BY_SUFFIX.get(path.suffix)
    if dump is None:
        findings.append(f"Ignoring unknown file {path}")
        return
    try:
        yield from dump(path, options, findings)
    except OSError as e:
        raise CliError(f"Cannot read {path}: {e.strerror}.") from None
    except ProtocolError as e:
        raise CliError(f"{path} is damaged: {e}.") from None


def _print(lines: Iterator[Line], output: OutputFormat) -> None:
    for line in lines:
        typer.echo(line.text if output is OutputFormat.TABLE else json.dumps(line.data))
