"""What BrokerRegistration, BrokerHeartbeat, UnregisterBroker and ControllerRegistration decide (KIP-500, KIP-919)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.core.metadata.cluster import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    UNFENCE,
    BrokerRegistration,
    ControllerRegistration,
    broker_record,
    controller_record,
    endpoints,
    ranges,
)
from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.directories import reserved
from barnabas.core.metadata.elections import (
    after_unclean_shutdown,
    leads_any,
    with_broker,
    without_broker,
    without_broker_and_elr,
    without_directory,
)
from barnabas.core.metadata.heartbeats import BrokerHeartbeats, BrokerState, Suspect
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import check_batch
from barnabas.core.replicated import Decision, VersionedRecord, answer
from barnabas.model.features import KRAFT_VERSION, METADATA_VERSION
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest
from barnabas.wire.messages.controller_registration import ControllerRegistrationRequest
from barnabas.wire.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.wire.records.unregister_broker_record import UnregisterBrokerRecord

_NO_STORED_EPOCH = -2
"""Never equal to what a broker sends as its previous epoch, which is -1 when it knows none."""


class HeartbeatReply(NamedTuple):
    """What a broker is told. in_controlled_shutdown: note the offset of the records, see `shutting_down`."""

    caught_up: bool
    fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


def check_broker_epoch(image: MetadataImage, broker: int, epoch: int) -> BrokerRegistration:
    """Give the registration; ApiError STALE_BROKER_EPOCH when that broker has registered again since, or never."""
    registration = image.cluster.brokers.get(broker)
    if registration is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker} is not registered")
    if registration.epoch != epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {broker} is registered with epoch {registration.epoch}, not {epoch}"
        )
    return registration


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    schema: ConfigSchema,
    heartbeats: BrokerHeartbeats,
    *,
    cluster_id: str,
    new_epoch: int,
    now_ms: int,
    kraft_version: int = 0,
    knows_previous_epoch: bool = True,
) -> Decision[int]:
    """Register a broker; the answer is its epoch.

    new_epoch: the offset at which the records will be written. knows_previous_epoch: the request's version can say
    which epoch the broker had when it last stopped cleanly (from v3).
    """
    if request.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is cluster {cluster_id}, the broker was formatted for {request.cluster_id}",
        )
    existing = image.cluster.brokers.get(request.broker_id)
    again = existing is not None and existing.incarnation_id == request.incarnation_id
    if existing is not None and not again and heartbeats.has_session(request.broker_id, existing.epoch, now_ms):
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another broker {request.broker_id} is alive; after a restart this passes when its session ends",
        )
    if request.is_migrating_zk_broker:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers of a ZooKeeper cluster cannot register here")
    if image.levels.directories:
        _check_directories(image, request)
    _check_features({**image.features.finalized, KRAFT_VERSION: kraft_version}, request)
    records: list[VersionedRecord] = []
    if not again:
        stored = _NO_STORED_EPOCH if existing is None else existing.epoch
        clean = knows_previous_epoch and request.previous_broker_epoch == stored
        lost = image.levels.elr and not clean
        records += (after_unclean_shutdown if lost else without_broker)(image, schema, request.broker_id)
    registration = _registration(image, request, existing if again else None, new_epoch)
    records.append(broker_record(registration, image.levels))
    return Decision(tuple(records), registration.epoch, atomic=False)


def _registration(
    image: MetadataImage, request: BrokerRegistrationRequest, existing: BrokerRegistration | None, new_epoch: int
) -> BrokerRegistration:
    return BrokerRegistration(
        id=request.broker_id,
        epoch=new_epoch if existing is None else existing.epoch,
        incarnation_id=request.incarnation_id,
        listeners=endpoints(request.listeners),
        features=ranges(request.features),
        rack=request.rack,
        fenced=existing is None or existing.fenced,
        in_controlled_shutdown=existing is not None and existing.in_controlled_shutdown,
        directories=tuple(request.log_dirs) if image.levels.directories else (),
    )


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    def refuse(why: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REGISTRATION, why)

    if not request.log_dirs:
        raise refuse("a broker must register with at least one log directory")
    if any(reserved(directory) for directory in request.log_dirs):
        raise refuse("a log directory has a reserved id: delete its meta.properties and format it again")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise refuse("two log directories have the same id: one is a copy of the other")
    for broker_id, broker in sorted(image.cluster.brokers.items()):
        shared = set(broker.directories) & set(request.log_dirs)
        if broker_id != request.broker_id and shared:
            raise refuse(f"broker {broker_id} is registered with directory {Uuid(min(shared))}: one is a copy")


def _check_features(finalized: Mapping[str, int], request: BrokerRegistrationRequest) -> None:
    supported = ranges(request.features)
    if METADATA_VERSION not in supported:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"the broker does not say which {METADATA_VERSION} it supports")
    for name in sorted({*supported, *finalized}):
        level = finalized.get(name, 0)
        if name not in supported:
            if level != 0:
                raise ApiError(
                    ErrorCode.UNSUPPORTED_VERSION, f"the cluster runs {name} {level}, which the broker does not know"
                )
            continue
        lowest, highest = supported[name]
        if not lowest <= level <= highest:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the cluster runs {name} {level}, the broker supports {lowest} to {highest}",
            )


def process_heartbeat(
    image: MetadataImage, request: BrokerHeartbeatRequest, schema: ConfigSchema, heartbeats: BrokerHeartbeats
) -> Decision[HeartbeatReply]:
    """Give a broker what it may have now; the shell has noted the contact."""
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    caught_up = heartbeats.caught_up(image, broker, request.current_metadata_offset)
    current = heartbeats.state(image, broker)
    new = heartbeats.next_state(image, request, leads=leads_any(image, broker.id))
    records: list[VersionedRecord] = []
    if new is not current:
        records += _moved(image, schema, broker, new)
    heartbeats.read_up_to(image, broker, request.current_metadata_offset)
    if image.levels.directories:
        records += _offline(image, schema, broker, request.offline_log_dirs)
    cordoned = request.cordoned_log_dirs
    if image.levels.cordoned_directories and cordoned is not None and _cordons_anew(broker, cordoned):
        records.append(_changed(broker, 3, cordoned_log_dirs=list(cordoned)))
    reply = HeartbeatReply(
        caught_up=caught_up,
        fenced=new in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        in_controlled_shutdown=new is BrokerState.CONTROLLED_SHUTDOWN,
        should_shut_down=new is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(tuple(records), reply, atomic=False)


def _changed(broker: BrokerRegistration, version: int, **fields: object) -> VersionedRecord:
    record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    for name, value in fields.items():
        setattr(record, name, value)
    return VersionedRecord(record, version)


def _moved(
    image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration, new: BrokerState
) -> list[VersionedRecord]:
    if new is BrokerState.UNFENCED:
        return [_changed(broker, 0, fenced=UNFENCE), *with_broker(image, schema, broker.id)]
    if new is BrokerState.CONTROLLED_SHUTDOWN:
        started = [] if broker.in_controlled_shutdown else [
            _changed(broker, 1, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN)
        ]  # fmt: skip
        return [*started, *without_broker(image, schema, broker.id)]
    return _fenced(image, schema, broker)


def _fenced(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration) -> list[VersionedRecord]:
    return [*without_broker(image, schema, broker.id), _changed(broker, 0, fenced=FENCE)]


def _offline(
    image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration, directories: list[Uuid]
) -> list[VersionedRecord]:
    newly = [directory for directory in broker.directories if directory in directories]
    if not newly:
        return []
    records = [record for directory in newly for record in without_directory(image, schema, broker.id, directory)]
    left = [directory for directory in broker.directories if directory not in directories]
    return [*records, _changed(broker, 2, log_dirs=left)]


def _cordons_anew(broker: BrokerRegistration, cordoned: list[Uuid]) -> bool:
    return broker.cordoned_directories is None or set(broker.cordoned_directories) != set(cordoned)


def fence_stale_broker(
    image: MetadataImage, schema: ConfigSchema, heartbeats: BrokerHeartbeats, now_ms: int
) -> Decision[bool]:
    """Fence one broker that has been silent for too long; the answer says whether one was found (then ask again)."""
    found = heartbeats.expired(now_ms)
    if found is None:
        return answer(False)
    broker = image.cluster.brokers.get(found[0])
    if broker is None or broker.epoch != found[1]:
        return answer(True)
    return Decision(tuple(_fenced(image, schema, broker)), True, atomic=False)


def fence_ended_broker(
    image: MetadataImage, schema: ConfigSchema, heartbeats: BrokerHeartbeats, suspect: Suspect
) -> Decision[bool]:
    """Fence a broker at whose addresses nobody listens any more; the answer says whether it was.

    It was not when it has been heard of since it became a suspect, has registered again, or is fenced already.
    """
    if not heartbeats.unheard(suspect):
        return answer(False)
    heartbeats.forget(suspect)
    broker = image.cluster.brokers.get(suspect.broker)
    if broker is None or broker.epoch != suspect.epoch or broker.fenced:
        return answer(False)
    return Decision(tuple(_fenced(image, schema, broker)), True, atomic=False)


def unregister_broker(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Decision[None]:
    """Forget a broker for good."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    changes = without_broker_and_elr(image, schema, broker_id)
    return Decision(check_batch([*changes, VersionedRecord(gone, 0)]), None, atomic=False)


def register_controller(image: MetadataImage, request: ControllerRegistrationRequest) -> Decision[None]:
    """Register a controller (KIP-919)."""
    if not image.levels.controller_registration:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "controllers register from metadata.version 3.7-IV0 on")
    controller = ControllerRegistration(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        listeners=endpoints(request.listeners),
        features=ranges(request.features),
    )
    return Decision((controller_record(controller),), None)
