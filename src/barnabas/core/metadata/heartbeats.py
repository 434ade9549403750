"""Which brokers are alive: soft state of the active controller, never replayed, and what a heartbeat leads to.

A broker is FENCED, UNFENCED, or in CONTROLLED_SHUTDOWN; each heartbeat says what it wants, and `next_state` what it
gets. A broker that says nothing for a session's time is fenced. Whether a broker is fenced stands in the image alone;
here is only what no record tells.

One whose process has ended need not be waited for: the connection that its last heartbeat came by ends with it, and
nobody listens at its addresses any more. The first makes it a suspect here; the shell looks for the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from barnabas.core.metadata.cluster import BrokerRegistration, ClusterImage
from barnabas.core.metadata.image import MetadataImage
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

_NOT_SHUTTING_DOWN: Final = -1
_EVERYBODY: Final = 2**63 - 1


class BrokerState(Enum):
    """How a broker stands with the controller; SHUTDOWN_NOW is only ever a next state."""

    FENCED = 1
    UNFENCED = 2
    CONTROLLED_SHUTDOWN = 3
    SHUTDOWN_NOW = 4


class Suspect(NamedTuple):
    """A registration of a broker that may have ended. connection: by which it was heard of last."""

    broker: int
    epoch: int
    connection: str


class _Contact(NamedTuple):
    at_ms: int
    connection: str


@dataclass(slots=True)
class _Session:
    registered_at: int
    metadata_offset: int = -1
    shutdown_offset: int = _NOT_SHUTTING_DOWN


@dataclass(slots=True)
class BrokerHeartbeats:
    """What the active controller remembers of its brokers, by (id, epoch). session_ms: `broker.session.timeout.ms`."""

    session_ms: int
    _sessions: dict[tuple[int, int], _Session] = field(default_factory=dict)
    _contacts: dict[tuple[int, int], _Contact] = field(default_factory=dict)

    def activate(self, image: MetadataImage, now_ms: int, *, own_id: int | None = None) -> None:
        """Start anew: every unfenced broker has just been heard of.

        own_id: this process's own broker, None for a controller alone. Its earlier incarnation cannot be alive, so it
        need not wait for the end of that session.
        """
        self._sessions.clear()
        self._contacts.clear()
        for broker_id, broker in image.cluster.brokers.items():
            if not broker.fenced and broker_id != own_id:
                self._contacts[broker_id, broker.epoch] = _Contact(now_ms, "")

    def registered(self, broker_id: int, epoch: int, offset: int) -> None:
        """Note that the broker's registration is committed at `offset` or before: read that far to be unfenced."""
        for key in [key for key in self._sessions if key[0] == broker_id]:
            del self._sessions[key]
        self._sessions[broker_id, epoch] = _Session(offset)

    def contacted(self, broker_id: int, epoch: int, now_ms: int, connection: str = "") -> None:
        """Note that the broker was heard of, and by which connection."""
        self._contacts[broker_id, epoch] = _Contact(now_ms, connection)

    def last_contact_ms(self, broker_id: int, epoch: int) -> int | None:
        """Give when that registration of the broker was last heard of, None when never."""
        contact = self._contacts.get((broker_id, epoch))
        return None if contact is None else contact.at_ms

    def has_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Say whether that registration of the broker was heard of within the session time."""
        at = self.last_contact_ms(broker_id, epoch)
        return at is not None and now_ms <= at + self.session_ms

    def expired(self, now_ms: int) -> tuple[int, int] | None:
        """Give, and forget, one (broker, epoch) that has been silent for too long; None when there is none."""
        for key, contact in self._contacts.items():
            if now_ms > contact.at_ms + self.session_ms:
                del self._contacts[key]
                return key
        return None

    def cut_off(self, connection: str) -> Suspect | None:
        """Give the broker that was heard of last by a connection that has ended now; None when there is none."""
        for (broker_id, epoch), contact in self._contacts.items():
            if contact.connection == connection:
                return Suspect(broker_id, epoch, connection)
        return None

    def never_heard(self, broker_id: int, epoch: int) -> Suspect | None:
        """Give a broker as a suspect that is only known from the log, not by a heartbeat; None for any other."""
        contact = self._contacts.get((broker_id, epoch))
        return None if contact is None or contact.connection else Suspect(broker_id, epoch, "")

    def unheard(self, suspect: Suspect) -> bool:
        """Say whether a suspect has not been heard of by another connection since."""
        contact = self._contacts.get((suspect.broker, suspect.epoch))
        return contact is not None and contact.connection == suspect.connection

    def forget(self, suspect: Suspect) -> None:
        """Note that a suspect has ended: it has no session any more."""
        self._contacts.pop((suspect.broker, suspect.epoch), None)

    def _session(self, broker: BrokerRegistration, image: MetadataImage) -> _Session:
        key = (broker.id, broker.epoch)
        if key not in self._sessions:
            # Registered with an earlier controller: an epoch is the offset at which the registration was written.
            self._sessions[key] = _Session(broker.epoch)
        return self._sessions[key]

    def caught_up(self, image: MetadataImage, broker: BrokerRegistration, metadata_offset: int) -> bool:
        """Say whether a broker that has read the metadata log up to there knows its own registration."""
        return metadata_offset >= self._session(broker, image).registered_at

    def read_up_to(self, image: MetadataImage, broker: BrokerRegistration, metadata_offset: int) -> None:
        """Note how far the broker has read the metadata log."""
        self._session(broker, image).metadata_offset = metadata_offset

    def shutting_down(self, image: MetadataImage, broker: BrokerRegistration, offset: int) -> None:
        """Note that the broker may stop once every active broker has read up to `offset`; the first note counts."""
        session = self._session(broker, image)
        if session.shutdown_offset == _NOT_SHUTTING_DOWN:
            session.shutdown_offset = offset

    def state(self, image: MetadataImage, broker: BrokerRegistration) -> BrokerState:
        """Give how a registered broker stands."""
        session = self._session(broker, image)
        if broker.fenced:
            session.shutdown_offset = _NOT_SHUTTING_DOWN
            return BrokerState.FENCED
        if session.shutdown_offset != _NOT_SHUTTING_DOWN:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.UNFENCED

    def next_state(self, image: MetadataImage, request: BrokerHeartbeatRequest, *, leads: bool) -> BrokerState:
        """Give what the broker gets. leads: whether it leads any partition."""
        broker = image.cluster.brokers[request.broker_id]
        state = self.state(image, broker)
        if state is BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            caught_up = self.caught_up(image, broker, request.current_metadata_offset)
            return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
        if state is BrokerState.UNFENCED:
            return _next_unfenced(request, leads=leads)
        if leads or self._session(broker, image).shutdown_offset > self._lowest_active_offset(image.cluster):
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.SHUTDOWN_NOW

    def _lowest_active_offset(self, cluster: ClusterImage) -> int:
        lowest = _EVERYBODY
        for broker_id, broker in cluster.brokers.items():
            session = self._sessions.get((broker_id, broker.epoch))
            if broker.fenced or (session is not None and session.shutdown_offset != _NOT_SHUTTING_DOWN):
                continue
            lowest = min(lowest, -1 if session is None else session.metadata_offset)
        return lowest


def _next_unfenced(request: BrokerHeartbeatRequest, *, leads: bool) -> BrokerState:
    if request.want_fence:
        return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
    if request.want_shut_down:
        return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
    return BrokerState.UNFENCED
