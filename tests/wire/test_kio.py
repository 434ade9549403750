"""kio, an independent implementation, must read the same values from our bytes and write the same bytes."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import re
import uuid
from random import Random
from types import ModuleType
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from barnabas.model.uuid import ZERO_UUID
from barnabas.wire.declaration import Message, Struct, field_specs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.request_header import RequestHeader

from .instances import VERSIONS, Maker

pytestmark = pytest.mark.slow

CODES = tuple(sorted({int(c) for c in KioErrorCode} & {int(c) for c in ErrorCode}))
OWN = {("EnvelopeRequest", 1), ("EnvelopeResponse", 1)}
"""What only we have."""


def kio_class(cls: type[Message], version: int) -> type[Any] | None:
    """Give kio's class for a message; None when kio does not know it."""
    base = re.sub(r"(Request|Response)$", "", cls.NAME)
    if cls.KIND == "header":
        base = cls.NAME
    folder = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", base).lower()
    kind = cls.KIND if cls.KIND in ("request", "response", "header") else "data"
    try:
        module: ModuleType = importlib.import_module(f"kio.schema.{folder}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    return getattr(module, cls.NAME, None)


KNOWN = [(cls, v, theirs) for cls, v in VERSIONS if (theirs := kio_class(cls, v)) is not None]


def test_kio_knows_most_of_what_we_speak() -> None:
    ours = {(c.NAME, v) for c, v in VERSIONS if c.KIND in ("request", "response", "header")}
    theirs = {(c.NAME, v) for c, v, _ in KNOWN}
    assert len(ours & theirs) > 500


def plain(value: object) -> object:
    """Give a value of kio's as we would have it."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1)
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return value


def our_name(name: str, ours: frozenset[str]) -> str:
    """Kio leaves out the unit where it has a type for times, cuts KRaft in two and avoids built-in names."""
    name = name.removesuffix("_").replace("k_raft", "kraft")
    return name + "_ms" if name not in ours and name + "_ms" in ours else name


def assert_same(ours: Struct, theirs: Any, version: int) -> None:
    """Compare field by field, by name."""
    specs = {f.name: f for f in field_specs(type(ours)) if version in f.on.versions}
    names = {our_name(f.name, frozenset(specs)): f.name for f in dataclasses.fields(theirs)}
    assert specs.keys() == names.keys()
    for name, spec in specs.items():
        mine, other = getattr(ours, name), plain(getattr(theirs, names[name]))
        if spec.struct is not None and mine is not None:
            mine_list, other_list = (mine, other) if spec.kind == "array" else ([mine], [other])
            assert isinstance(other_list, list)
            assert len(mine_list) == len(other_list)
            for a, b in zip(mine_list, other_list, strict=True):
                assert_same(a, b, version)
        else:
            assert absent_as_kio(mine) == absent_as_kio(other), name


def absent_as_kio(value: object) -> object:
    """Kio gives None for the zero id, and for times of -1."""
    if isinstance(value, list):
        return [absent_as_kio(v) for v in value]
    return None if value == ZERO_UUID or value == -1 else value


@pytest.mark.parametrize(("cls", "version", "theirs"), KNOWN, ids=lambda p: getattr(p, "NAME", str(p)))
def test_kio_reads_and_writes_the_same(cls: type[Message], version: int, theirs: type[Any]) -> None:
    if (cls.NAME, version) in OWN:
        return
    for seed in range(3):
        msg = Maker(version, Random(seed), codes=CODES, small_numbers=True).make(cls)
        data = encode(msg, version)
        parsed = entity_reader(theirs)(data, 0)[0]
        assert_same(msg, parsed, version)
        out = io.BytesIO()
        entity_writer(theirs)(out, parsed)
        assert out.getvalue() == data
        assert decode(cls, version, out.getvalue()) == msg


def test_the_client_id_keeps_its_old_encoding_in_flexible_headers() -> None:
    header = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=7, client_id="me")
    assert encode(header, 2) == b"\0\x12\0\x03\0\0\0\x07\0\x02me\0"
