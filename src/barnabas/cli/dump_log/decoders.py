"""What the records of Kafka's own topics say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas.cli.dump_log.lines import Decoded, Decoder
from barnabas.cli.dump_log.message_json import to_json
from barnabas.wire.coordinator_records import (
    CoordinatorRecord,
    UnknownRecord,
    decode_group_record,
    decode_transaction_record,
)
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import decode_from
from barnabas.wire.metadata_records import decode_metadata_record
from barnabas.wire.record_batch import Record
from barnabas.wire.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.records.group_metadata_value import GroupMetadataValue

_ACRONYMS: Final = {"ELR": "Elr", "ID": "Id"}


def text(record: Record) -> Decoded:
    """Read key and value as UTF-8 text."""
    return Decoded(
        None if record.key is None else record.key.decode("utf-8", "replace"),
        None if record.value is None else record.value.decode("utf-8", "replace"),
    )


def metadata(record: Record) -> Decoded:
    """Read a record of `__cluster_metadata`."""
    try:
        message, version = decode_metadata_record(record.value or b"")
    except ProtocolError as e:
        return Decoded(None, f"Error at {record.offset}, skipping. {e}")
    return Decoded(None, {"type": record_type(message.NAME), "version": version, "data": to_json(message, version)})


def _coordinator(decode: Callable[[bytes, bytes | None], CoordinatorRecord | UnknownRecord]) -> Decoder:
    def read(record: Record) -> Decoded:
        if record.key is None:
            return Decoded(f"Error at offset {record.offset}, skipping. It has no key.", None)
        try:
            found = decode(record.key, record.value)
        except ProtocolError as e:
            return Decoded(f"Error at offset {record.offset}, skipping. {e}", None)
        if isinstance(found, UnknownRecord):
            return Decoded(f"Unknown record type {found.record_type} at offset {record.offset}, skipping.", None)
        key = {"type": str(found.key.API_KEY), "data": to_json(found.key, 0)}
        if found.value is None:
            return Decoded(key, "<DELETE>")
        value = to_json(found.value, found.value_version)
        if isinstance(found.value, GroupMetadataValue) and found.value.protocol_type == "consumer":
            for shown, member in zip(value["members"], found.value.members, strict=True):
                shown["subscription"] = _embedded(
                    ConsumerProtocolSubscription, member.subscription, shown["subscription"]
                )
                shown["assignment"] = _embedded(ConsumerProtocolAssignment, member.assignment, shown["assignment"])
        return Decoded(key, {"version": str(found.value_version), "data": value})

    return read


def _embedded(
    cls: type[ConsumerProtocolSubscription] | type[ConsumerProtocolAssignment], data: bytes, otherwise: Any
) -> Any:
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        return to_json(decode_from(cls, version, data, 2)[0], version)
    except ProtocolError:
        return otherwise


def record_type(name: str) -> str:
    """Give a record's name as Kafka's enumeration spells it: RegisterBrokerRecord is REGISTER_BROKER_RECORD."""
    out = ""
    for acronym, word in _ACRONYMS.items():
        name = name.replace(acronym, word)
    for i, letter in enumerate(name):
        out += "_" + letter if letter.isupper() and i else letter
    return out.upper()


DECODERS: Final[Mapping[str, Decoder]] = {
    "text": text,
    "metadata": metadata,
    "offsets": _coordinator(decode_group_record),
    "transactions": _coordinator(decode_transaction_record),
}
