"""Records -> bytes on stdout: Kafka's default formatter, or a JSON object a line."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from barnabas.cli.errors import CliError
from barnabas.client.consumer import FetchedBatches
from barnabas.wire.record_batch import Columns, TimestampType, iter_headers

Printer = Callable[[FetchedBatches, Columns], bytes]
_FLAGS: Final = {
    "print.timestamp": False,
    "print.partition": False,
    "print.offset": False,
    "print.epoch": False,
    "print.headers": False,
    "print.key": False,
    "print.value": True,
}
_TEXTS: Final = {
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_TYPES: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


def text_lines(properties: Mapping[str, str]) -> Printer:
    """Give the printer that these formatter properties describe; CliError for one that is not known."""
    for unknown in (p for p in properties if p not in _FLAGS and p not in _TEXTS):
        raise CliError(f"--formatter-property {unknown}: want one of {', '.join((*_FLAGS, *_TEXTS))}.")
    on = {k: properties[k].strip().lower() == "true" if k in properties else v for k, v in _FLAGS.items()}
    texts = {k: properties.get(k, v).encode() for k, v in _TEXTS.items()}
    separator, end, null = texts["key.separator"], texts["line.separator"], texts["null.literal"]
    shown = [k for k in _FLAGS if on[k]]

    def only_values(_: FetchedBatches, columns: Columns) -> bytes:
        return b"".join([(null if v is None else v) + end for v in columns.values])

    def whole(fetched: FetchedBatches, columns: Columns) -> bytes:
        cells = [_column(name, fetched, columns, null, texts["headers.separator"]) for name in shown]
        # Without the value Kafka ends a line with the line separator all the same.
        return b"".join([separator.join(row) + end for row in zip(*cells, strict=True)])

    return only_values if shown == ["print.value"] else whole


def json_lines(fetched: FetchedBatches, columns: Columns) -> bytes:
    """Print an object a record; bytes that are not UTF-8 stand as {"base64": ...}."""
    topic, partition = fetched.partition
    lines = [
        json.dumps(
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": timestamp,
                "key": _json(key),
                "value": _json(value),
                "headers": [[name, _json(v)] for name, v in headers],
            },
            ensure_ascii=False,
        )
        for offset, timestamp, key, value, headers in zip(*columns, strict=True)
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _column(
    name: str, fetched: FetchedBatches, columns: Columns, null: bytes, headers_separator: bytes
) -> Sequence[bytes]:
    count = len(columns.offsets)
    if name == "print.timestamp":
        kinds = _kinds(fetched, columns)
        return [
            b"NO_TIMESTAMP" if t < 0 else b"%s:%d" % (kind, t)
            for kind, t in zip(kinds, columns.timestamps, strict=True)
        ]
    if name == "print.partition":
        return [b"Partition:%d" % fetched.partition.partition] * count
    if name == "print.offset":
        return [b"Offset:%d" % offset for offset in columns.offsets]
    if name == "print.epoch":
        return [b"Epoch:%d" % epoch for epoch in _of_batches(fetched, columns, lambda h: h.leader_epoch)]
    if name == "print.headers":
        return [_headers(headers, null, headers_separator) for headers in columns.headers]
    values = columns.keys if name == "print.key" else columns.values
    return [null if v is None else v for v in values]


def _kinds(fetched: FetchedBatches, columns: Columns) -> list[bytes]:
    return _of_batches(fetched, columns, lambda h: _TYPES[h.timestamp_type].encode())


def _of_batches(fetched: FetchedBatches, columns: Columns, fact: Callable[[Any], Any]) -> list[Any]:
    """Give for each record a fact of the batch that it came in."""
    batches = [(h.last_offset, fact(h)) for _, h in iter_headers(fetched.records, partial_tail=True)]
    found, i = [], 0
    for offset in columns.offsets:
        while batches[i][0] < offset:
            i += 1
        found.append(batches[i][1])
    return found


def _headers(headers: Sequence[tuple[str, bytes | None]], null: bytes, separator: bytes) -> bytes:
    if not headers:
        return b"NO_HEADERS"
    return separator.join([name.encode() + b":" + (null if v is None else v) for name, v in headers])


def _json(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
