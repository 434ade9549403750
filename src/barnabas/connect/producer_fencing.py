"""Shutting out whoever writes under some transactional ids, without writing anything (KIP-618)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from barnabas.client.cluster import Cluster, CoordinatorKind
from barnabas.client.config import ClientConfig
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_TIMEOUT_MS: Final = 90_000
_AT_ONCE: Final = 16


async def fence_producers(config: ClientConfig, transactional_ids: Iterable[str]) -> None:
    """Have each id belong to nobody: what its producer left open is aborted, and it can do nothing any more.

    ApiError when a coordinator refuses; DisconnectedError, RequestTimeoutError when it cannot be reached.
    """
    room = asyncio.Semaphore(_AT_ONCE)
    async with Cluster(config) as cluster:

        async def fence(transactional_id: str) -> None:
            async with room:
                await cluster.retry(lambda: _init(cluster, transactional_id), timeout_ms=_TIMEOUT_MS)

        await asyncio.gather(*map(fence, transactional_ids))


async def _init(cluster: Cluster, transactional_id: str) -> None:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_TIMEOUT_MS)
    answer: InitProducerIdResponse = await cluster.call_coordinator(
        CoordinatorKind.TRANSACTION, transactional_id, request
    )
    code = ErrorCode(answer.error_code)
    if code is not ErrorCode.NONE:
        raise ApiError(code, f"the tasks that write as {transactional_id!r} cannot be shut out")
