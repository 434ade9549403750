"""Brings the markers of ended transactions to the brokers that write them, again and again until all are written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import structlog

from barnabas.core.transactions.ending import Ending
from barnabas.core.transactions.marking import LeaderOf, Marking
from barnabas.net.client import ChannelError
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

log = structlog.get_logger("kafka.coordinator.transaction.TransactionMarkerChannelManager")

Call = Callable[[int, WriteTxnMarkersRequest], WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]]
"""Asks a broker; ChannelError when there is no answer. The response itself when it is there at once."""


class MarkerSender:
    """One request a broker at a time; what comes up meanwhile, or in one turn of the loop, goes with the next.

    finished: called with a partition of the transaction log and an ending of it that all partitions know of.
    retry_backoff_ms: how long to wait before what failed is tried again.
    """

    def __init__(
        self,
        call: Call,
        leader_of: LeaderOf,
        finished: Callable[[int, Ending], None],
        *,
        retry_backoff_ms: int = 100,
    ) -> None:
        self._call = call
        self._leader_of = leader_of
        self._finished = finished
        self._retry_backoff_ms = retry_backoff_ms
        self._marking = Marking()
        self._requests: set[asyncio.Future[WriteTxnMarkersResponse]] = set()
        self._sending: asyncio.Handle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """Give how many transactions wait for markers."""
        return len(self._marking)

    def without_leader(self) -> int:
        """Give how many of them wait for a partition to have a leader."""
        return self._marking.without_leader(self._leader_of)

    def begin(self, shard: int, endings: Iterable[Ending]) -> None:
        """Send the markers of transactions whose outcome is committed; of those that are known already only once.

        They are sent in the next turn of the loop, in which clients are told of the outcome. What this node marks at
        once is over before it reads their next requests, which would hear CONCURRENT_TRANSACTIONS, and wait.
        """
        self._marking.begin(shard, endings)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().call_soon(self._send)

    def forget(self, shard: int) -> None:
        """Send no more for a partition of the transaction log that was given up."""
        self._marking.forget(shard)

    def _send(self) -> None:
        self._sending = None
        if self._closed:
            return
        for broker_id, request in self._marking.due(self._leader_of).items():
            self._ask(broker_id, request)
        for shard, ending in self._marking.finished():
            self._finished(shard, ending)
        if self._marking.waits:
            self._send_later()  # whoever led what is left may lead it no more

    def _ask(self, broker_id: int, request: WriteTxnMarkersRequest) -> None:
        try:
            answer = self._call(broker_id, request)
        except Exception as e:  # noqa: BLE001 - as in _told(): the other brokers are to be asked
            self._not_written(broker_id, request, e)
            return
        if isinstance(answer, WriteTxnMarkersResponse):
            self._answered(broker_id, answer)
            return
        asked = asyncio.ensure_future(answer)
        self._requests.add(asked)
        asked.add_done_callback(partial(self._told, broker_id, request))

    def _told(
        self, broker_id: int, request: WriteTxnMarkersRequest, asked: asyncio.Future[WriteTxnMarkersResponse]
    ) -> None:
        self._requests.discard(asked)
        error = asyncio.CancelledError() if asked.cancelled() else asked.exception()
        if error is not None:
            self._not_written(broker_id, request, error)
        elif self._answered(broker_id, asked.result()):
            self._send()

    def _not_written(self, broker_id: int, request: WriteTxnMarkersRequest, error: BaseException) -> None:
        """Take note that there is no answer, whatever went wrong: a broker that owes one would never be asked again."""
        if isinstance(error, ChannelError):
            log.info("markers not written", broker=broker_id, transactions=len(request.markers), error=str(error))
        elif not isinstance(error, asyncio.CancelledError):
            asyncio.get_running_loop().call_exception_handler(
                {"message": "markers not written", "exception": error, "broker": broker_id}
            )
        self._answered(broker_id, None)

    def _answered(self, broker_id: int, response: WriteTxnMarkersResponse | None) -> bool:
        """Take an answer in; says whether there is nothing in it to be tried again later."""
        is_good = self._marking.answered(broker_id, response)
        if not is_good and not self._closed:
            self._send_later()
        return is_good

    def _send_later(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._retry_backoff_ms / 1000, self._send_again)

    def _send_again(self) -> None:
        self._retry = None
        self._marking.look_again()
        self._send()

    async def close(self) -> None:
        """Stop. What is left is taken up by whoever coordinates next."""
        self._closed = True
        asked = list(self._requests)
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        for handle in (self._sending, self._retry):
            if handle is not None:
                handle.cancel()
