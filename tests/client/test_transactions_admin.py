"""Shutting producers out: many ids at once but not all, and one that is refused keeps no other from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.client.admin.transactions import TransactionsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.producer_id import ProducerId
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.client.scripted_broker import ScriptedBroker

REFUSED = "not-mine"


@dataclass
class Coordinator(ScriptedBroker):
    """Notes which ids it was asked for."""

    ids: list[str] = field(default_factory=list)

    def _init_producer_id(
        self, request: InitProducerIdRequest, version: int, refusal: ErrorCode
    ) -> InitProducerIdResponse:
        self.ids.append(str(request.transactional_id))
        if request.transactional_id == REFUSED:
            refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return super()._init_producer_id(request, version, refusal)


async def test_sixteen_ids_at_once_are_shut_out() -> None:
    names = [f"id-{n}" for n in range(40)]
    async with Coordinator() as broker:
        broker.scripts[InitProducerIdRequest].extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 16)
        config = ClientConfig.from_properties({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
        async with Cluster(config) as cluster:
            fenced = await TransactionsAdmin(cluster).fence_producers([*names, REFUSED, names[0]])
    assert set(broker.ids[:16]) == set(names[:16])
    assert broker.ids[16] in names[:16]  # the others wait until one of these is done
    assert sorted(broker.ids) == sorted([*names, *names[:16], REFUSED])
    refused = fenced.pop(REFUSED)
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert list(fenced) == names
    assert {outcome.id for outcome in fenced.values() if isinstance(outcome, ProducerId)} == {77}
