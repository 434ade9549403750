"""Carries the Raft core: its disk, its clock, its connections, and whoever applies what is committed.

Group commit: while one write is on its way to the disk, proposals and requests gather; the next write takes them all.
The event loop never waits for the disk. A write that fails ends the driver: nothing after it can be called durable.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.ready import (
    BatchTooLargeError,
    InconsistentLogError,
    LeaderAndEpoch,
    Leadership,
    LogRead,
    NotLeaderError,
    Outgoing,
    Proposal,
    Ready,
    Reply,
)
from barnabas.core.raft.voters import Endpoint, Voter
from barnabas.model.ports import Clock
from barnabas.server.raft.measures import RaftMeasures
from barnabas.server.raft.metadata_log import MetadataLog, MetadataLogSettings
from barnabas.server.raft.peers import RaftPeers
from barnabas.server.raft.progress import Progress, SnapshotSource, StateMachine
from barnabas.server.raft.snapshots import SnapshotKeeper
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotResponse

log = structlog.get_logger("kafka.raft")

_COMMIT_MS: Final = 5_000
"""How long a leader that stops waits for its last records to be committed."""
_SUCCESSOR_MS: Final = 3_000
"""And then for a successor, who may need its vote."""

__all__ = [
    "BatchTooLargeError",
    "DriverFailedError",
    "Leadership",
    "NotLeaderError",
    "RaftDriver",
    "SnapshotSource",
    "StateMachine",
]


class DriverFailedError(Exception):
    """The metadata log could not be written, so that this node cannot go on."""


class RaftDriver:
    """Runs one replica. `load` before anything, then `run` as a task until `stop`.

    me: the voter that this replica is or would be; linger_ms: how long proposals may gather before a write.
    """

    def __init__(
        self,
        node: RaftNode,
        files: MetadataLog,
        machine: StateMachine,
        clock: Clock,
        settings: MetadataLogSettings,
        *,
        me: Voter,
        peers: RaftPeers,
        linger_ms: int = 0,
    ) -> None:
        self._node = node
        self._files = files
        self._machine = machine
        self._clock = clock
        self._me = me
        self.peers = peers
        peers.answered = self.answered
        peers.absent = self.absent
        self._linger_ms = linger_ms
        # The wall's time that no correction of the clock moves: deadlines hang on it, and the records' timestamps.
        self._since_ms = clock.now_ms() - clock.monotonic_ms()
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._stopping = False
        self._hands_over = True
        self._ended = False
        self._failure: BaseException | None = None
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="metadata-log")
        self.snapshots = SnapshotKeeper(node, files, machine, clock, settings, self._disk)
        self._progress = Progress(files, machine, self.snapshots.trigger, self._leads, self._stuck)
        self._tokens = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Message]] = {}
        self._unanswered: set[int] = set()
        self._heard = False
        self._leader = LeaderAndEpoch(None, node.epoch)
        self._leader_news: asyncio.Future[None] | None = None
        self.measures = RaftMeasures(clock)

    # -- what others ask for

    @property
    def node(self) -> RaftNode:
        """The replica, for those who describe it."""
        return self._node

    @property
    def files(self) -> MetadataLog:
        """The files, for those who describe them."""
        return self._files

    @property
    def me(self) -> Voter:
        """Give the voter that this replica is or would be, at the addresses of its controller listeners."""
        return self._me

    @property
    def leader(self) -> LeaderAndEpoch:
        """Give who leads, as far as this replica knows; itself once it has committed something in its epoch."""
        return self._leader

    @property
    def kraft_version(self) -> int:
        """Give the kraft.version in force, which the log's control records set (KIP-853)."""
        return self._node.control.kraft_version.last.value

    @property
    def applied_offset(self) -> int:
        """Give the end of what the state machine has heard of."""
        return self._progress.applied

    def leader_endpoint(self) -> Endpoint | None:
        """Give where the leader is reached on the controller listener; None while either is unknown."""
        return None if self._leader.node_id is None else self._node.leader_endpoint()

    async def leader_changed(self) -> None:
        """Wait until another replica, or none, leads."""
        if self._leader_news is None:
            self._leader_news = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._leader_news)

    def propose(self, values: Sequence[bytes]) -> Proposal:
        """Append records as one batch; the state machine hears of the commit. Raises as `RaftNode.propose`."""
        if self._failure is not None:
            raise DriverFailedError("the metadata log has failed") from self._failure
        proposal = self._node.propose(values, self._now_ms())
        if not self._linger_ms:
            self._wake.set()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(self._linger_ms / 1000, self._wake.set)
        return proposal

    def upgrade_kraft_version(self, version: int, *, validate_only: bool = False) -> Proposal | None:
        """Raise kraft.version as `RaftNode.upgrade_kraft_version` does; the high watermark says when it holds."""
        proposal = self._node.upgrade_kraft_version(version, self._now_ms(), validate_only=validate_only)
        self._wake.set()
        return proposal

    async def serve(self, request: Message, version: int, listener_name: str) -> Message:
        """Have the core answer a request of another replica's or of an admin's, soon or late.

        ApiError BROKER_NOT_AVAILABLE when this replica stops before it is answered.
        """
        if self._ended:
            raise _stopped()
        token = next(self._tokens)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._asked[token] = future
        self._node.request(token, request, version, listener_name, self._now_ms())
        self._wake.set()
        try:
            return await future
        except asyncio.CancelledError:
            if self._asked.pop(token, None) is not None:
                self._node.forget(token)
            raise

    # -- running

    def load(self) -> None:
        """Give the state machine the newest snapshot; the log after it follows once it is known to be committed."""
        self._progress.load()

    def stop(self, *, hand_over: bool = True) -> None:
        """Let `run` finish what was proposed, hand over, and end. Requests must be served until `run` has ended.

        Without `hand_over` it ends as a killed process does: nobody is told.
        """
        self._stopping, self._hands_over = True, hand_over
        self._wake.set()

    async def run(self) -> None:
        """Carry the replica until `stop`; DriverFailedError when the disk fails."""
        self._wake.set()
        try:
            while not self._stopping:
                await self._turn()
                self.snapshots.look()
            if self._hands_over:
                await self._hand_over()
        except (OSError, ApiError) as e:
            self._failure = e
            log.error("the metadata log cannot be written: this node stops", dir=str(self._files.dir), reason=str(e))
            raise DriverFailedError(f"the metadata log in {self._files.dir} cannot be written: {e}") from e
        except Exception as e:
            self._failure = e
            raise
        finally:
            await self._end()

    async def _turn(self) -> None:
        """Wait for something to do, and do all there is."""
        await self._wake.wait()
        self._wake.clear()
        self.measures.waited()
        if self._failure is not None:
            raise self._failure
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        await self._carry_all()
        self.measures.worked()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        deadline_ms = self._node.next_deadline_ms()
        if deadline_ms is not None:
            after_s = max(0, deadline_ms - self._now_ms()) / 1000
            self._alarm = asyncio.get_running_loop().call_later(after_s, self._wake.set)

    async def _carry(self, ready: Ready) -> None:
        installed = ready.snapshot is not None and ready.snapshot.last
        if installed:
            self._progress.interrupt()
        if ready.must_save:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._disk, self._files.save, ready)
            self._measure(ready)
        for reply in ready.replies:
            self._reply(reply)
        for request in ready.requests:
            self._send(request)
        if self._progress.leading and not self._leads(self._node.epoch):
            leader = self._node.leader
            self._progress.lose(f"node {leader.node_id} leads epoch {leader.epoch}" if leader.node_id is not None
                                else f"nobody leads epoch {leader.epoch} yet")  # fmt: skip
        if installed:
            self._progress.load()
        if ready.high_watermark is not None:
            self._files.commit(ready.high_watermark)
            self.measures.committed(ready.high_watermark)
            self._progress.commit(ready.high_watermark)
        if ready.leadership is not None:
            self._progress.lead(ready.leadership)
        if ready.leader is not None:
            self._announce(ready.leader)
        self._node.advance(ready, self._now_ms())

    def _measure(self, ready: Ready) -> None:
        if not ready.entries:
            return
        records = sum(entry.count for entry in ready.entries)
        if self._node.leader.node_id == self._me.node_id:
            self.measures.appended(ready.entries[-1].end_offset, records, len(ready.entries))
        else:
            self.measures.fetched(records)
        if self._leads(self._node.epoch):
            self.snapshots.trigger.committed(sum(len(entry.data) for entry in ready.entries))

    def _announce(self, leader: LeaderAndEpoch) -> None:
        if leader.node_id is None:
            self.measures.stands()
        else:
            self.measures.elected()
        self._leader = leader
        self._machine.leader_changed(leader)
        news, self._leader_news = self._leader_news, None
        if news is not None:
            news.set_result(None)

    # -- other replicas

    def _send(self, request: Outgoing) -> None:
        self._unanswered.add(request.request_id)
        self.peers.send(request)

    def answered(self, request_id: int, response: Message | None) -> None:
        """Take in what came of a request to another replica."""
        self._unanswered.discard(request_id)
        self._heard = self._heard or response is not None
        if self._ended:
            return
        try:
            self._node.response(request_id, response, self._now_ms())
        except InconsistentLogError as e:
            log.critical("this replica and the leader disagree on what is committed", reason=str(e))
            self._stuck(e)
        self._wake.set()

    def absent(self, endpoint: Endpoint) -> None:
        """Take in that nobody listens where another replica was."""
        if not self._ended:
            self._node.absent(endpoint, self._now_ms())
            self._wake.set()

    def _reply(self, reply: Reply) -> None:
        future = self._asked.pop(reply.token, None)
        if future is None or future.done():
            return
        response = reply.response
        if isinstance(response, FetchResponse) and isinstance(reply.read, LogRead):
            try:
                response.responses[0].partitions[0].records = self._files.read_records(reply.read)
            except ApiError as e:
                # Cut at its start meanwhile: the follower asks again, and is told of a snapshot.
                response.responses[0].partitions[0].error_code = e.code
        elif isinstance(response, FetchSnapshotResponse) and reply.read is not None:
            assert not isinstance(reply.read, LogRead)
            part = response.topics[0].partitions[0]
            try:
                part.unaligned_records = self._files.read_snapshot_part(reply.read)
            except FileNotFoundError:
                part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        future.set_result(response)

    async def snapshot(self, reason: str) -> None:
        """Write a snapshot of what is committed now, and delete what it makes needless."""
        await self.snapshots.write(reason)

    # -- the end

    async def _hand_over(self) -> None:
        """Let what was proposed be committed, step down, and see a successor elected if anybody is there."""
        await self._carry_all()
        await self._until(lambda: not self._leads(self._node.epoch) or not self._undecided(), _COMMIT_MS)
        led = self._leads(self._node.epoch)
        self._node.shut_down(self._now_ms())
        self._heard = False
        await self._carry_all()
        if led:
            await self._until(lambda: self._node.has_handed_over or self._alone(), _SUCCESSOR_MS)

    def _alone(self) -> bool:
        """Say whether nobody was there to hear that this leader steps down."""
        return not (self._unanswered or self._heard)

    async def _until(self, done: Callable[[], bool], limit_ms: int) -> None:
        deadline_ms = self._now_ms() + limit_ms
        alarm = asyncio.get_running_loop().call_later(limit_ms / 1000, self._wake.set)
        while not done() and self._now_ms() < deadline_ms:
            await self._turn()
        alarm.cancel()

    async def _carry_all(self) -> None:
        self._node.tick(self._now_ms())
        while ready := self._node.ready():
            await self._carry(ready)
        self._set_alarm()

    def _undecided(self) -> bool:
        return (self._node.high_watermark or 0) < self._node.log_end_offset

    async def _end(self) -> None:
        self._ended = True
        if self._alarm is not None:
            self._alarm.cancel()
        self._progress.interrupt()
        self._progress.lose("the node stops" if self._failure is None else f"the metadata log failed: {self._failure}")
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(_stopped())
        await self.peers.close()
        await self.snapshots.finish()
        self._disk.shutdown(wait=True)
        if self._failure is None:
            self._files.close()

    # -- inner ends

    def _leads(self, epoch: int) -> bool:
        return self._node.leader == LeaderAndEpoch(self._me.node_id, epoch)

    def _stuck(self, error: BaseException) -> None:
        self._failure = error
        self._wake.set()

    def _now_ms(self) -> int:
        return self._since_ms + self._clock.monotonic_ms()


def _stopped() -> ApiError:
    return ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "this node is about to stop")
