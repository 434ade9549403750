"""Record batches of message format 2, in place: headers, checksums, patching, cutting a buffer into batches.

What is inside a batch is read by `barnabas.wire.batch_reader` and written by `barnabas.wire.batch_writer`;
their functions are offered here as well.
"""

from __future__ import annotations

from barnabas.wire.batch_header import (
    BATCH_HEADER_SIZE,
    CURRENT_MAGIC,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    assign,
    check_crc,
    crc32c,
    iter_headers,
    read_header,
    set_max_timestamp,
)
from barnabas.wire.batch_reader import Columns, Record, decode_batch, decode_columns, iter_records
from barnabas.wire.batch_writer import empty_batch, encode_batch, filtered_batch
from barnabas.wire.compression import Compression
from barnabas.wire.control_records import ControlType, control_batch, decode_control

__all__ = [
    "BATCH_HEADER_SIZE",
    "CURRENT_MAGIC",
    "LOG_OVERHEAD",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Columns",
    "Compression",
    "ControlType",
    "Record",
    "TimestampType",
    "assign",
    "check_crc",
    "control_batch",
    "crc32c",
    "decode_batch",
    "decode_columns",
    "decode_control",
    "empty_batch",
    "encode_batch",
    "filtered_batch",
    "iter_headers",
    "iter_records",
    "read_header",
    "set_max_timestamp",
]
