"""What each node offers, and what it does with a version that it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.message import decode
from barnabas.wire.messages.api_versions import ApiVersionsResponse

from .known import NOT_OFFERED
from .requests import request
from .script import side_by_side
from .side import CLOSED, NOBODY, Connection, Side

if TYPE_CHECKING:
    from .conftest import Both

pytestmark = pytest.mark.peer
_SOFTWARE: Final = {"client_software_name": "side-by-side", "client_software_version": "1"}


def test_every_api_and_version_of_kafka_is_offered_or_listed_as_missing(both: Both) -> None:
    asked = request("ApiVersions", **_SOFTWARE)
    theirs, ours = (
        {a.api_key: (a.min_version, a.max_version) for a in side.ask(asked).api_keys}
        for side in (both.kafka, both.barnabas)
    )
    assert {ApiKey(key).name for key in theirs.keys() - ours.keys()} == set(NOT_OFFERED)
    assert ours == {key: versions for key, versions in theirs.items() if key in ours}


@side_by_side
def test_api_versions(s: Side) -> None:
    for user in ("admin", NOBODY):
        for version in range(5):
            s.call(request("ApiVersions", **(_SOFTWARE if version >= 3 else {})), version, user)
    for name, text in (("", "1"), ("a b", "1"), ("a", "?"), ("-a", "1"), ("a" * 300, "1"), ("a.b-c", "1.0-x")):
        asked = request("ApiVersions", client_software_name=name, client_software_version=text)
        s.call(asked, 3, note=f"{name[:5]!r} {text!r}")
        s.call(asked, 4, note=f"{name[:5]!r} {text!r}")


@side_by_side
def test_versions_that_nobody_offers(s: Side) -> None:
    for row in API_KEYS.values():
        if "broker" not in row.listeners or row.key is ApiKey.API_VERSIONS or row.key.name in NOT_OFFERED:
            continue
        for version in (row.min_version - 1, row.latest_version + 1):
            if version < 0:
                continue
            connection = s.connection(NOBODY, row.name)
            connection.send_body(int(row.key), version, b"\0" * 20)
            answer = connection.receive_frame()
            s.note(row.request(), version, NOBODY, CLOSED if answer is None else f"{len(answer)} bytes")


@side_by_side
def test_a_newer_api_versions(s: Side) -> None:
    connection = Connection(s.port)
    connection.send_body(ApiKey.API_VERSIONS, 9, b"\xff" * 9)
    frame = connection.receive_frame()
    connection.close()
    assert frame is not None
    s.note(request("ApiVersions"), 9, "stranger", decode(ApiVersionsResponse, 0, frame, 4))
