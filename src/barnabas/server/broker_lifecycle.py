"""A broker's life as the controller sees it: registered, unfenced, and fenced again before it stops (KIP-631)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.model.features import SUPPORTED_FEATURES
from barnabas.model.uuid import Uuid
from barnabas.server.config import PROTOCOLS, Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from barnabas.server.forwarding.controller_channel import ControllerChannel

log = structlog.get_logger("kafka.server.BrokerLifecycle")

UNREGISTERED: Final = -1
SHUT_DOWN_INTERVAL_S: Final = 0.02
RETRY_S: Final = 0.1
_MAY_CHANGE: Final = (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""Refusals that time may heal: an earlier run of this broker is still thought alive, or nobody is the controller."""


class RegistrationRefusedError(Exception):
    """The controller does not take this broker; says why."""


class BrokerLifecycle:
    """Registration and heartbeats of this broker."""

    def __init__(
        self,
        channel: ControllerChannel,
        *,
        node_id: int,
        rack: str | None,
        incarnation_id: Uuid,
        interval_ms: int,
        patience_ms: int,
        session_ms: int,
        metadata_offset: Callable[[], int],
        next_metadata: Callable[[], Awaitable[object]],
        offline_dirs: Callable[[], Sequence[Uuid]],
        cordoned_dirs: Callable[[], Sequence[Uuid] | None],
    ) -> None:
        """interval_ms: between heartbeats; patience_ms: to be registered in; session_ms: silent for longer, the
        controller fences us; next_metadata: waits until the metadata changes here; cordoned_dirs: None where the
        cluster's metadata.version does not know of them."""
        self._channel = channel
        self._node_id = node_id
        self._rack = rack
        self._incarnation_id = incarnation_id
        self._interval_s = interval_ms / 1000
        self._patience_s = patience_ms / 1000
        self._session_s = session_ms / 1000
        self._metadata_offset = metadata_offset
        self._next_metadata = next_metadata
        self._offline_dirs = offline_dirs
        self._cordoned_dirs = cordoned_dirs
        self._wake = asyncio.Event()
        self.epoch = UNREGISTERED
        self.fenced = True

    async def register(
        self,
        cluster_id: str,
        endpoints: Sequence[Endpoint],
        directories: Sequence[Uuid],
        previous_epoch: int = UNREGISTERED,
    ) -> None:
        """Tell the controller who we are; RegistrationRefusedError when it will not have us.

        previous_epoch: of the last clean stop, -1 after any other end: then records may be missing here (KIP-966).
        """
        request = BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(
                    name=e.listener_name,
                    host=e.host,
                    port=e.port,
                    security_protocol=PROTOCOLS.index(e.security_protocol),
                )
                for e in endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=self._rack,
            log_dirs=list(directories),
            previous_broker_epoch=previous_epoch,
        )
        self.epoch = await self._registered(request)

    async def _registered(self, request: BrokerRegistrationRequest) -> int:
        said: ErrorCode | None = None
        try:
            async with asyncio.timeout(self._patience_s):
                while True:
                    answer: BrokerRegistrationResponse = await self._channel.call(request, request.MAX_VERSION)
                    if not answer.error_code:
                        return answer.broker_epoch
                    refusal = ErrorCode(answer.error_code)
                    if refusal not in _MAY_CHANGE:
                        raise RegistrationRefusedError(f"the controller refuses this broker: {refusal.name}")
                    if refusal is not said:
                        log.info("not registered yet", broker=self._node_id, because=refusal.name)
                        said = refusal
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            raise RegistrationRefusedError(
                f"no controller has registered broker {self._node_id} within {self._patience_s:.0f} s "
                "(initial.broker.registration.timeout.ms)"
            ) from None

    async def unfence(self) -> None:
        """Ask to be let in until the controller says that we are: it waits until we know the metadata that it knows."""
        while True:
            await self._beat(want_fence=False)
            if not self.fenced:
                return
            try:
                await asyncio.wait_for(self._next_metadata(), RETRY_S)
            except TimeoutError:
                pass

    async def settle(self) -> None:
        """Wait for nothing: whoever is unfenced knows what the controller knew."""

    async def run(self) -> None:
        """Send heartbeats until cancelled; `hurry` sends the next one at once."""
        while True:
            try:
                await asyncio.wait_for(self._wake.wait(), self._interval_s)
            except TimeoutError:
                pass
            self._wake.clear()
            await self._beat(want_fence=False)

    def hurry(self) -> None:
        """Send the next heartbeat at once, for example because a log directory failed."""
        self._wake.set()

    async def shut_down(self) -> None:
        """Ask to leave until the controller lets us: leaderships have moved, and we are fenced.

        Without a controller to ask we leave after a session's time: by then any controller would have fenced us.
        """
        if self.epoch == UNREGISTERED:
            return
        try:
            async with asyncio.timeout(self._session_s):
                while True:
                    answer = await self._beat(want_fence=False, want_shut_down=True)
                    if answer.should_shut_down or answer.error_code:
                        return
                    await asyncio.sleep(SHUT_DOWN_INTERVAL_S)
        except TimeoutError:
            log.warning("leaves without the controller's consent", broker=self._node_id, waited_s=self._session_s)

    async def _beat(self, *, want_fence: bool, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        cordoned = self._cordoned_dirs()
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(self._offline_dirs()),
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )
        answer: BrokerHeartbeatResponse = await self._channel.call(request, BrokerHeartbeatRequest.MAX_VERSION)
        if answer.error_code:
            log.warning("heartbeat refused", error=ErrorCode(answer.error_code).name)
        else:
            self.fenced = answer.is_fenced
        return answer
