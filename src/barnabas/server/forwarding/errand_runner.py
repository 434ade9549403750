"""Does errands at the active controller: finds it, asks it, and asks the next one when it is gone, silent or deposed.

An attempt ends in an answer, or with its connection; one that reached a controller may have had its effect all the
same, so an errand counts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import structlog

from barnabas.net.client import AuthenticationError, Channel, ChannelError, UnsupportedVersionError
from barnabas.server.forwarding.connections import FIRST_PAUSE_S, LONGEST_PAUSE_S, ControllerConnections
from barnabas.server.forwarding.errands import Errand, OwnErrand
from barnabas.server.peer_channels import peer_settings
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.core.metadata.image import MetadataImage
    from barnabas.net.client import ChannelSettings
    from barnabas.server.config import NodeConfig
    from barnabas.server.forwarding.complaints import Complaints
    from barnabas.server.forwarding.controller_channel import ActiveController, LocalChannel
    from barnabas.server.forwarding.metrics import ForwardingMetrics
    from barnabas.server.metrics import ServerMetrics

log = structlog.get_logger("kafka.server.NodeToControllerChannelManager")

PIPELINE: Final = 5
"""Clients' requests that may be under way at once."""
OWN_PIPELINE: Final = 3
"""This node's own: they never wait for clients' requests."""
CONNECT_MS: Final = 3_000
SILENCE_S: Final = 1.5
"""A controller that has not answered for so long is asked whether it is there at all (KAFKA-14392)."""
GRACE_S: Final = 1.0
"""How long a controller that lost its place may still answer what it was asked."""
LOGIN_PATIENCE_S: Final = 3.0
"""A controller that has just started may not know its users yet."""


class ForwardingNode(Protocol):
    """What is needed of the node that forwards."""

    config: NodeConfig
    """As it is now, dynamic settings included."""
    metrics: ServerMetrics

    def image(self) -> MetadataImage:
        """Give the committed metadata as this node has taken it up."""
        ...


class ErrandRunner:
    """See the module; the arguments are those of `forwarding.ForwardingChannel`."""

    def __init__(
        self,
        node: ForwardingNode,
        leader: Callable[[], ActiveController | None],
        leader_changed: Callable[[], Awaitable[None]],
        local: LocalChannel | None,
        metrics: ForwardingMetrics,
        complaints: Complaints,
    ) -> None:
        self._node = node
        self._leader = leader
        self._leader_changed = leader_changed
        self._local = local
        self._metrics = metrics
        self._complaints = complaints
        self._settings: tuple[NodeConfig, ChannelSettings] | None = None
        self._pools: dict[bool, ControllerConnections] = {}
        self._old_pools: set[ControllerConnections] = set()
        self._attempts: set[asyncio.Task[Any]] = set()
        self.versions: Mapping[int, tuple[int, int]] | None = None
        """What the controller last connected to speaks, by API."""

    async def done(self, errand: Errand, budget_s: float | None) -> Any:
        """Give the active controller's answer; ApiError when there is none in time, or no way to get one."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        errand.deadline = deadline = None if budget_s is None else begun + budget_s
        pause_s = FIRST_PAUSE_S
        self._metrics.queue_length += (waiting := not isinstance(errand, OwnErrand))
        try:
            while True:
                target = await self._active(errand, deadline)
                attempt = _Attempt(errand, target)
                try:
                    answer = await self._attempt(attempt, deadline)
                except AuthenticationError as e:
                    self._not_let_in(errand, e, begun)
                except UnsupportedVersionError as e:
                    self._not_served(errand, e)
                except ChannelError as e:
                    log.debug("controller not reached", controller=target.node_id, why=str(e))
                else:
                    if not errand.from_wrong_node(answer):
                        if waiting and attempt.remote:
                            self._metrics.answered(
                                (attempt.sent_at - begun) * 1e3, (loop.time() - attempt.sent_at) * 1e3
                            )
                        return answer
                await self._pause(target, pause_s, errand, deadline)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        except ApiError:
            if waiting:
                self._metrics.given_up((loop.time() - begun) * 1e3)
            raise
        finally:
            self._metrics.queue_length -= waiting

    async def _active(self, errand: Errand, deadline: float | None) -> ActiveController:
        while (leader := self._leader()) is None:
            await self._within(self._leader_changed(), errand, deadline)
        return leader

    async def _pause(self, target: ActiveController, pause_s: float, errand: Errand, deadline: float | None) -> None:
        """Wait a little, or until another node leads."""
        try:
            async with asyncio.timeout(pause_s):
                await self._deposed(target)
        except TimeoutError:
            if deadline is not None and asyncio.get_running_loop().time() >= deadline:
                self._too_late(errand)

    async def _attempt(self, attempt: _Attempt, deadline: float | None) -> Any:
        """Give an answer of the attempt's target; ChannelError when it is lost, silent or deposed."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._asked(attempt))
        self._attempts.add(task)
        task.add_done_callback(self._ended)
        deposed = asyncio.ensure_future(self._deposed(attempt.target))
        given_up = False
        try:
            while not task.done():
                left = SILENCE_S if deadline is None else min(SILENCE_S, deadline - loop.time())
                await asyncio.wait({task, deposed}, timeout=max(0, left), return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    break
                if deposed.done():
                    await asyncio.wait({task}, timeout=GRACE_S if attempt.sent_at else 0)
                    given_up = not task.done()
                    break
                if deadline is not None and loop.time() >= deadline:
                    self._too_late(attempt.errand)
                await self._look_after(attempt, deadline)
        finally:
            deposed.cancel()
            if given_up or not attempt.sent_at:
                task.cancel()  # what has been sent is left to end by itself, or its connection would be lost
        if given_up:
            raise ChannelError("another controller is active")
        return task.result()

    async def _asked(self, attempt: _Attempt) -> Any:
        errand = attempt.errand
        if self.is_here(attempt.target):
            self._going(attempt)
            assert self._local is not None
            return await errand.here(self._local)
        attempt.remote = True
        pool = self._pool(attempt.target, own=isinstance(errand, OwnErrand))
        attempt.pool = pool
        channel = await pool.acquire()
        try:
            self._going(attempt)
            if errand.times_sent == 1 and not isinstance(errand, OwnErrand):
                self._metrics.forwarded(errand.client_id)
            return await errand.there(channel, self._node.config["controller.socket.timeout.ms"])
        except asyncio.CancelledError:
            await channel.close()  # nobody waits for the answer that will come by it
            raise
        finally:
            pool.release(channel)

    def _going(self, attempt: _Attempt) -> None:
        errand = attempt.errand
        if not errand.times_sent:
            errand.first_seen = self._node.image()
        errand.times_sent += 1
        attempt.sent_at = asyncio.get_running_loop().time()

    async def _look_after(self, attempt: _Attempt, deadline: float | None) -> None:
        """Make sure that somebody is there to answer; connections to a silent node are given up."""
        pool = attempt.pool
        if pool is None or not attempt.sent_at:
            return
        left_ms = CONNECT_MS if deadline is None else int((deadline - asyncio.get_running_loop().time()) * 1000) + 1
        if not await pool.answers(min(CONNECT_MS, left_ms)):
            log.warning("the controller is silent: trying again", controller=attempt.target.node_id)
            pool.abort()

    async def _deposed(self, target: ActiveController) -> None:
        """Wait until another node leads; while nobody does, the last one may still answer."""
        while (leader := self._leader()) is None or leader.node_id == target.node_id:
            await self._leader_changed()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._attempts.discard(task)
        if not task.cancelled():
            task.exception()

    def is_here(self, leader: ActiveController) -> bool:
        """Say whether the active controller is this very process."""
        return self._local is not None and leader.node_id == self._node.config.node_id

    async def close(self) -> None:
        """End what is under way and close the connections."""
        for attempt in self._attempts:
            attempt.cancel()
        if self._attempts:
            await asyncio.wait(self._attempts)
        for pool in (*self._pools.values(), *self._old_pools):
            await pool.closed()

    # -- connections

    def _pool(self, target: ActiveController, *, own: bool) -> ControllerConnections:
        pool = self._pools.get(own)
        if pool is not None and pool.target[2:] == target[2:]:
            return pool
        if pool is not None:
            pool.close()
            self._old_pools = {p for p in self._old_pools if p.in_use} | {pool}
        log.info("using the active controller", controller=target.node_id, epoch=target.epoch)
        limit = OWN_PIPELINE if own else PIPELINE
        pool = self._pools[own] = ControllerConnections(target, self._channel_settings, limit, self._opened)
        return pool

    def _opened(self, channel: Channel) -> None:
        self.versions = channel.api_versions

    def _channel_settings(self) -> ChannelSettings:
        config = self._node.config
        if self._settings is None or self._settings[0] is not config:
            made = peer_settings(config, config.controller_channel_listener, str(config.node_id))
            connect_ms = min(made.connect_timeout_ms, CONNECT_MS)
            self._settings = config, replace(made, connect_timeout_ms=connect_ms)
        return self._settings[1]

    # -- giving up

    async def _within(self, waited: Awaitable[None], errand: Errand, deadline: float | None) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await waited
        except TimeoutError:
            self._too_late(errand)

    def _too_late(self, errand: Errand) -> NoReturn:
        leader = self._leader()
        self._complaints.too_late(errand, None if leader is None else leader.node_id)
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not answer in time")

    def _not_let_in(self, errand: Errand, error: AuthenticationError, since: float) -> None:
        self._complaints.not_let_in(errand, str(error))
        waited_s = asyncio.get_running_loop().time() - since
        if not isinstance(errand, OwnErrand) and waited_s > LOGIN_PATIENCE_S:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _not_served(self, errand: Errand, error: UnsupportedVersionError) -> NoReturn:
        self._complaints.not_served(errand, str(error))
        if isinstance(errand, OwnErrand):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error))
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


@dataclass(slots=True)
class _Attempt:
    errand: Errand
    target: ActiveController
    sent_at: float = 0.0
    remote: bool = False
    pool: ControllerConnections | None = None
