"""A broker whose controller does not know its rules yet waits, and tells its client nothing of it (KIP-801)."""

from __future__ import annotations

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import decode_request_header
from barnabas.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tests.forwarding.scripted import Broker, ScriptedController, broker_config, channel_of, forwarded, response_to
from tests.server.requests import error_codes

pytestmark = pytest.mark.slow
NOT_READY = EnvelopeResponse(error_code=ErrorCode.AUTHORIZER_NOT_READY)
ASKED = CreateAclsRequest(creations=[AclCreation(resource_name="a")])
CREATED = CreateAclsResponse(results=[AclCreationResult(error_message=None)])


class VersionsSeen(ScriptedController):
    """Notes in which versions Envelopes come."""

    def __init__(self) -> None:
        super().__init__()
        self.seen_versions: list[int] = []

    async def _answer(self, frame: bytes) -> bytes | None:
        header, _, row = decode_request_header(frame)
        if row is not None and row.key is ApiKey.ENVELOPE:
            self.seen_versions.append(header.request_api_version)
        return await super()._answer(frame)


@pytest.mark.requirement("A-26")
async def test_a_broker_asks_again_until_the_rules_are_there() -> None:
    async with ScriptedController() as controller, channel_of(Broker(broker_config(), leader=controller.target)) as way:

        async def third_time(envelope: EnvelopeRequest) -> EnvelopeResponse:
            if len(controller.envelopes) < 3:
                return NOT_READY
            return EnvelopeResponse(response_data=response_to(envelope.request_data, CREATED))

        controller.script = third_time
        answer = await forwarded(way, ASKED)
    assert [r.error_code for r in answer.results] == [0]
    assert len(controller.envelopes) == 3
    assert len({bytes(e.request_data) for e in controller.envelopes}) == 1


@pytest.mark.requirement("A-26")
async def test_a_broker_gives_up_in_time() -> None:
    async def never(_: EnvelopeRequest) -> EnvelopeResponse:
        return NOT_READY

    config = broker_config(request__timeout__ms="3000")
    async with ScriptedController(never) as controller, channel_of(Broker(config, leader=controller.target)) as way:
        answer = await forwarded(way, ASKED)
        assert set(error_codes(answer)) == {ErrorCode.REQUEST_TIMED_OUT}
        assert len(controller.envelopes) > 1


@pytest.mark.requirement("A-28")
@pytest.mark.parametrize(("highest", "used"), [(0, 0), (1, 1), (2, 1)])
async def test_the_version_of_envelopes_is_what_api_versions_says(highest: int, used: int) -> None:
    controller = VersionsSeen()
    async with controller, channel_of(Broker(broker_config(), leader=controller.target)) as way:
        controller.versions = {**controller.versions, int(ApiKey.ENVELOPE): (0, highest)}
        await forwarded(way, ASKED)
    assert controller.seen_versions == [used]
