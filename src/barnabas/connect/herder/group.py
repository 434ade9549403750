"""Being one of a group: joining, reading the config topic as far as the leader had, doing what it says, rejoining.

settled -> moved (heartbeats, a change of the configuration, a delay that is over) -> joined -> settled; where what was
revoked is to be given to others, or the config topic was not read far enough, it is joined once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from barnabas.connect.config import WorkerConfig
from barnabas.connect.group_member import GroupMember
from barnabas.connect.herder.local import Local
from barnabas.connect.herder.verification import Verification
from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.metrics import WorkerMetrics
from barnabas.connect.stores.configs import ConfigStore
from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.subprotocol import NO_ERROR, ExtendedAssignment, Subprotocol
from barnabas.model.ports import Clock
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError, ProtocolError

log = structlog.get_logger("kafka.connect.herder")

UNREACHABLE: Final = (DisconnectedError, RequestTimeoutError)
UNREADABLE: Final = (TimeoutError, ApiError, ProtocolError, *UNREACHABLE)
STUCK_AFTER_MS: Final = 10_000
_CATCH_UP_TRIES: Final = 5
_RETRY_SECONDS: Final = 0.25


class Group:
    """This worker's part in its group. wake: has the herder turn.

    config: what has been acted on of the configuration; the store may know more already. readable: whether the config
    topic could be read when it was last tried.
    """

    def __init__(
        self,
        config: WorkerConfig,
        worker_id: str,
        configs: ConfigStore,
        local: Local,
        clock: Clock,
        metrics: WorkerMetrics,
        wake: Callable[[], None],
    ) -> None:
        self._settings = config
        self._worker_id = worker_id
        self._configs = configs
        self._local = local
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self.verification = Verification(config.offered[0], config.verification_algorithms)
        self._sync_s = config.integer("worker.sync.timeout.ms") / 1000
        self._tries_left = _CATCH_UP_TRIES
        self._member: GroupMember | None = None
        self.config: ClusterConfigState = configs.state
        self.readable = True
        self.settled = False
        self.why = "this worker is starting"
        self.since_ms = clock.now_ms()
        self.rejoin_at_ms: int | None = None
        self._stage = "starting"
        self._stage_since_ms = clock.monotonic_ms()

    @property
    def stage(self) -> str:
        """Give what is under way, empty for nothing."""
        return self._stage

    @stage.setter
    def stage(self, stage: str) -> None:
        self._stage, self._stage_since_ms = stage, self._clock.monotonic_ms()

    @property
    def stuck(self) -> bool:
        """Say whether what is under way has been so for long, so that requests wait in vain."""
        return bool(self._stage) and self._clock.monotonic_ms() - self._stage_since_ms > STUCK_AFTER_MS

    @property
    def member(self) -> GroupMember:
        """Give the membership itself."""
        assert self._member is not None
        return self._member

    def begin(self, member: GroupMember) -> None:
        """Take the membership, which tells of its moves to `moved`."""
        self._member = member

    def rejoin(self, why: str) -> None:
        """Have the group rebalance."""
        self.moved(why)
        self.member.request_rejoin(why)

    def moved(self, why: str) -> None:
        """Hear that what is assigned does not hold any more."""
        if self.settled:
            self.why, self.since_ms = why, self._clock.now_ms()
        self.settled = False
        self._wake()

    async def settle(self) -> bool:
        """Join where that is needed and do what the assignment says; False when that did not come off yet."""
        if not self.member.must_join and not await self._claim():
            return False
        if not self.readable and not await self.catch_up():
            return False
        if self.rejoin_at_ms is not None and self._clock.now_ms() >= self.rejoin_at_ms:
            self.rejoin_at_ms = None
            self.rejoin("the delay that the leader asked for is over")
        if self.member.must_join:
            if not await self._join() or not await self._claim():
                return False
            if not self.readable and not await self.catch_up():
                return False
        return self.settled or await self._work_as_assigned()

    async def _claim(self) -> bool:
        """Have the config topic for this worker where it leads, and nowhere else; False when that did not come off yet.

        Before anything is read: a transaction that a leader of before left open would hold reading up, and only what is
        read afterwards is all that it wrote.
        """
        leader = self._configs.leader
        if not self.member.leads:
            await leader.relinquish()
        elif not leader.claimed:
            self.stage = "claiming the config topic"
            try:
                await leader.claim()
            except WriteFailedError as e:
                log.warning("the config topic could not be claimed; trying on", why=str(e))
                await asyncio.sleep(_RETRY_SECONDS)
                return False
            self.readable = False
        return True

    async def _join(self) -> bool:
        self.settled = False
        self.stage = f"joining the group: {self.why}"
        log.info("joining the group", why=self.why)
        self._metrics.rebalance_began()
        if self.member.subprotocol is Subprotocol.DEFAULT:
            await self.give_up()  # by this protocol everything is given up before
        try:
            await self.member.ensure_joined()
        except UNREACHABLE as e:
            log.warning("the group's coordinator cannot be reached; the work stops, for others may have it", why=str(e))
            await self.give_up()
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        assignment = self._assignment
        self._local.work.generation = self.member.generation
        self.rejoin_at_ms = self._clock.now_ms() + assignment.delay_ms if assignment.delay_ms > 0 else None
        self._log_joined(assignment)
        self.verification.joined(self.member.subprotocol)
        await self._local.stop(assignment)
        if self.member.leads:
            self._local.forget_deleted(self._configs.state, self._worker_id, self.member.generation)
        return True

    def _log_joined(self, assignment: ExtendedAssignment) -> None:
        log.info(
            "joined the group",
            generation=self.member.generation,
            protocol=self.member.subprotocol.value,
            leads=self.member.leads,
            leader=self.member.leader_url,
            connectors=list(assignment.connectors),
            tasks=[str(task) for task in assignment.tasks],
            revoked=[*assignment.revoked_connectors, *map(str, assignment.revoked_tasks)],
            delay_ms=assignment.delay_ms,
            error=assignment.error,
        )

    @property
    def _assignment(self) -> ExtendedAssignment:
        assignment = self.member.assignment
        assert assignment is not None
        return assignment

    @property
    def _behind(self) -> bool:
        return self._assignment.error != NO_ERROR or self._configs.state.offset < self._assignment.config_offset

    async def _work_as_assigned(self) -> bool:
        if self._behind and not await self.catch_up():
            self.rejoin("the config topic could not be read as far as the leader had")
            return False
        if self._behind:
            self.rejoin("the leader could not assign, for it knew less of the config topic than a member")
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        # It may be newer than what the leader went by: what has changed since is on its way as a rebalance of its own.
        self.config = self._configs.state
        self.stage = "starting connectors and tasks"
        await self._local.bring_to(self._assignment, self.config)
        self.settled = True
        self._metrics.rebalance_done()
        if any(self.member.take_revoked()):
            self.rejoin("what was revoked here can be given to others")
            return False
        return True

    async def catch_up(self) -> bool:
        """Read the config topic to its end; where that fails, leave the group rather than hold it up, and wait."""
        self.stage = "reading the config topic to its end"
        try:
            self.config = await self._configs.refresh(self._sync_s)
        except UNREADABLE as e:
            log.warning("the config topic could not be read to its end in time", why=str(e))
        else:
            self.readable, self._tries_left = True, _CATCH_UP_TRIES
            return True
        self.readable = False
        await self.member.leave("the config topic cannot be read")
        self._tries_left -= 1
        if self._tries_left == 0:
            log.warning("the work stops, for this worker cannot keep up with the group's configuration")
            await self.give_up()
            self._tries_left = _CATCH_UP_TRIES
        await asyncio.sleep(self._unsync_backoff_s())
        return False

    async def give_up(self) -> None:
        """Stop everything."""
        await self._local.stop_all()
        self.member.drop_assignment()

    def _unsync_backoff_s(self) -> float:
        if self.member.subprotocol is Subprotocol.DEFAULT:
            return self._settings.integer("worker.unsync.backoff.ms") / 1000
        delay_ms = self._settings.integer("scheduled.rebalance.max.delay.ms") / 10 / self._tries_left
        return max(delay_ms / 1000, _RETRY_SECONDS)
