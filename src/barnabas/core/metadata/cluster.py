"""The nodes: registrations of brokers and controllers, their image and replay.

A broker registers fenced, is unfenced once it has caught up, may enter controlled shutdown, and is fenced when it
leaves or falls silent. Its epoch tells one registration from the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import ReplayError, VersionedRecord, replays
from barnabas.model.uuid import Uuid
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.fence_broker_record import FenceBrokerRecord
from barnabas.wire.records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from barnabas.wire.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from barnabas.wire.records.unfence_broker_record import UnfenceBrokerRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord

FENCE: Final = 1
UNFENCE: Final = -1
ENTER_CONTROLLED_SHUTDOWN: Final = 1


class Endpoint(NamedTuple):
    """Where a listener is reached. security_protocol: Kafka's number (0 PLAINTEXT, 1 SSL, 2 and 3 with SASL)."""

    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    """The levels of a feature that a node supports, both ends included."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A registered broker. directories: those online, sorted; cordoned: None while the broker has not said."""

    id: int
    epoch: int
    incarnation_id: Uuid
    listeners: Map[str, Endpoint]
    features: Map[str, VersionRange]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[Uuid, ...] = ()
    cordoned_directories: tuple[Uuid, ...] | None = None
    is_migrating_zk_broker: bool = False

    @property
    def active(self) -> bool:
        """Whether it may be in an ISR and lead."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_replicas(self) -> bool:
        """Whether a log directory is left that is not cordoned."""
        if not self.directories or self.cordoned_directories is None:
            return True
        return any(directory not in self.cordoned_directories for directory in self.directories)


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A registered controller."""

    id: int
    incarnation_id: Uuid
    listeners: Map[str, Endpoint]
    features: Map[str, VersionRange]
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The registered nodes, by id."""

    brokers: Map[int, BrokerRegistration] = field(default_factory=Map)
    controllers: Map[int, ControllerRegistration] = field(default_factory=Map)

    def active(self, broker: int) -> bool:
        """Say whether the broker is registered, unfenced and not shutting down."""
        registration = self.brokers.get(broker)
        return registration is not None and registration.active


class _NamedEndpoint(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class _NamedFeature(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def endpoints(listeners: Iterable[_NamedEndpoint]) -> Map[str, Endpoint]:
    """Give the listeners of a request or record by name."""
    return Map({e.name: Endpoint(e.host, e.port, e.security_protocol) for e in listeners})


def ranges(features: Iterable[_NamedFeature]) -> Map[str, VersionRange]:
    """Give the features of a request or record by name."""
    return Map({f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in features})


@replays(RegisterBrokerRecord)
def register_broker(image: ClusterImage, r: RegisterBrokerRecord) -> ClusterImage:
    """Register a broker, or replace its registration."""
    cordoned = r.cordoned_log_dirs
    registration = BrokerRegistration(
        id=r.broker_id,
        epoch=r.broker_epoch,
        incarnation_id=r.incarnation_id,
        listeners=endpoints(r.end_points),
        features=ranges(r.features),
        rack=r.rack,
        fenced=r.fenced,
        in_controlled_shutdown=r.in_controlled_shutdown,
        directories=tuple(sorted(r.log_dirs)),
        cordoned_directories=None if cordoned is None else tuple(cordoned),
        is_migrating_zk_broker=r.is_migrating_zk_broker,
    )
    return replace(image, brokers=image.brokers.set(r.broker_id, registration))


def _registered(image: ClusterImage, broker: int, epoch: int) -> BrokerRegistration:
    registration = image.brokers.get(broker)
    if registration is None or registration.epoch != epoch:
        raise ReplayError(f"the metadata log changes broker {broker} at epoch {epoch}, which is not registered")
    return registration


@replays(UnregisterBrokerRecord)
def unregister_broker(image: ClusterImage, r: UnregisterBrokerRecord) -> ClusterImage:
    """Forget a broker."""
    _registered(image, r.broker_id, r.broker_epoch)
    return replace(image, brokers=image.brokers.delete(r.broker_id))


@replays(FenceBrokerRecord)
def fence_broker(image: ClusterImage, r: FenceBrokerRecord) -> ClusterImage:
    """Fence a broker (older controllers' record)."""
    registration = replace(_registered(image, r.id, r.epoch), fenced=True)
    return replace(image, brokers=image.brokers.set(r.id, registration))


@replays(UnfenceBrokerRecord)
def unfence_broker(image: ClusterImage, r: UnfenceBrokerRecord) -> ClusterImage:
    """Unfence a broker (older controllers' record)."""
    registration = replace(_registered(image, r.id, r.epoch), fenced=False)
    return replace(image, brokers=image.brokers.set(r.id, registration))


@replays(BrokerRegistrationChangeRecord)
def change_registration(image: ClusterImage, r: BrokerRegistrationChangeRecord) -> ClusterImage:
    """Fence, unfence, start a controlled shutdown, or take the new lists of directories."""
    registration = _registered(image, r.broker_id, r.broker_epoch)
    if r.fenced:
        registration = replace(registration, fenced=r.fenced == FENCE)
    if r.in_controlled_shutdown:
        registration = replace(registration, in_controlled_shutdown=True)
    if r.log_dirs:
        registration = replace(registration, directories=tuple(sorted(r.log_dirs)))
    if r.cordoned_log_dirs is not None:
        registration = replace(registration, cordoned_directories=tuple(r.cordoned_log_dirs))
    return replace(image, brokers=image.brokers.set(r.broker_id, registration))


@replays(RegisterControllerRecord)
def register_controller(image: ClusterImage, r: RegisterControllerRecord) -> ClusterImage:
    """Register a controller, or replace its registration."""
    registration = ControllerRegistration(
        id=r.controller_id,
        incarnation_id=r.incarnation_id,
        listeners=endpoints(r.end_points),
        features=ranges(r.features),
        zk_migration_ready=r.zk_migration_ready,
    )
    return replace(image, controllers=image.controllers.set(r.controller_id, registration))


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (
    register_broker,
    unregister_broker,
    fence_broker,
    unfence_broker,
    change_registration,
    register_controller,
)


def snapshot_records(image: ClusterImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image; controllers only where metadata.version knows of them."""
    for _, broker in sorted(image.brokers.items()):
        yield broker_record(broker, levels)
    if levels.controller_registration:
        for _, controller in sorted(image.controllers.items()):
            yield controller_record(controller)


def broker_record(broker: BrokerRegistration, levels: Levels) -> VersionedRecord:
    """Give the record that registers the broker as it is; what `levels` does not know is left out."""
    record = RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for name, e in sorted(broker.listeners.items())
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=r.lowest, max_supported_version=r.highest)
            for name, r in sorted(broker.features.items())
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
    if levels.register_broker_version >= 2:
        record.is_migrating_zk_broker = broker.is_migrating_zk_broker
    if levels.directories:
        record.log_dirs = list(broker.directories)
    if levels.cordoned_directories and broker.cordoned_directories is not None:
        record.cordoned_log_dirs = list(broker.cordoned_directories)
    return VersionedRecord(record, levels.register_broker_version)


def controller_record(controller: ControllerRegistration) -> VersionedRecord:
    """Give the record that registers the controller as it is."""
    record = RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for name, e in sorted(controller.listeners.items())
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=r.lowest, max_supported_version=r.highest)
            for name, r in sorted(controller.features.items())
        ],
    )
    return VersionedRecord(record, 0)
