"""Who a controller is in the metadata quorum, and how its log is to be kept: what the configuration says of it."""

from __future__ import annotations

from barnabas.core.raft.settings import QuorumSettings
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet, static_voters
from barnabas.model.config import ConfigError
from barnabas.model.features import SUPPORTED_FEATURES
from barnabas.server.config import PROTOCOLS, NodeConfig
from barnabas.server.format import random_uuid
from barnabas.server.raft.metadata_log import MetadataLogSettings
from barnabas.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener


class ControllerError(Exception):
    """This node cannot be the cluster's controller, or cannot go on as one; says why and what would help."""


def log_settings(config: NodeConfig) -> MetadataLogSettings:
    """Give what the configuration says of the metadata log."""
    return MetadataLogSettings(
        segment_bytes=config["internal.metadata.log.segment.bytes"] or config["metadata.log.segment.bytes"],
        segment_ms=config["metadata.log.segment.ms"],
        snapshot_bytes=config["metadata.log.max.record.bytes.between.snapshots"],
        snapshot_interval_ms=config["metadata.log.max.snapshot.interval.ms"],
        retention_bytes=config["metadata.max.retention.bytes"],
        retention_ms=config["metadata.max.retention.ms"],
        max_batch_bytes=config["internal.metadata.max.batch.size.in.bytes"],
        durable=config.is_controller,
    )


def local_voter(config: NodeConfig, key: ReplicaKey) -> Voter:
    """Give the voter that this node is, at the addresses of its controller listeners."""
    told = {e.listener_name: e for e in config.advertised}
    shown = [told.get(e.listener_name, e) for e in config.controller_listeners]
    endpoints = ((e.listener_name, Endpoint(e.host or "localhost", e.port)) for e in shown)
    return Voter(key, tuple(sorted(endpoints)))


def registration(config: NodeConfig) -> ControllerRegistrationRequest:
    """Give what a controller tells of itself once an incarnation, the active one too (KIP-919)."""
    voter = local_voter(config, ReplicaKey(config.node_id))
    protocols = {e.listener_name: PROTOCOLS.index(e.security_protocol) for e in config.controller_listeners}
    return ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=random_uuid(),
        listeners=[
            Listener(name=name, host=e.host, port=e.port, security_protocol=protocols[name])
            for name, e in voter.endpoints
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        ],
    )


def configured_voters(config: NodeConfig) -> VoterSet:
    """Give the voters of `controller.quorum.voters`; none where the quorum is dynamic, its voters being in the log."""
    if not config.voters:
        return VoterSet()
    addresses = {v.id: Endpoint(v.host, v.port) for v in config.voters}
    return static_voters(addresses, config.controller_listener_names[0])


def quorum_settings(config: NodeConfig) -> QuorumSettings:
    """Give what the configuration says of this node's part in the quorum."""
    key = "controller.quorum."
    return QuorumSettings(
        listener=config.controller_listener_names[0],
        can_vote=config.is_controller,
        bootstrap=_bootstrap(config),
        auto_join=config[f"{key}auto.join.enable"],
        election_timeout_ms=config[f"{key}election.timeout.ms"],
        election_backoff_max_ms=config[f"{key}election.backoff.max.ms"],
        fetch_timeout_ms=config[f"{key}fetch.timeout.ms"],
        request_timeout_ms=config[f"{key}request.timeout.ms"],
        retry_backoff_ms=config[f"{key}retry.backoff.ms"],
        fetch_max_bytes=config[f"{key}fetch.max.bytes"],
        fetch_snapshot_max_bytes=config[f"{key}fetch.snapshot.max.bytes"],
    )


def append_linger_ms(config: NodeConfig) -> int:
    """Give how long proposals gather before a write: as long as was asked for, else not at all.

    Kafka waits 25 ms unless told otherwise; here writes share a flush without waiting, so its default would only slow.
    """
    name = "controller.quorum.append.linger.ms"
    return int(config[name]) if name in config.originals else 0


def _bootstrap(config: NodeConfig) -> tuple[Endpoint, ...]:
    """Give where the leader is asked for: the bootstrap servers, else the static voters."""
    found = []
    for item in config["controller.quorum.bootstrap.servers"]:
        host, colon, port = item.rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"controller.quorum.bootstrap.servers: {item!r} is not host:port")
        found.append(Endpoint(host.strip("[]"), int(port)))
    return tuple(found) or tuple(Endpoint(v.host, v.port) for v in config.voters)


def check_voters(voters: VoterSet, me: Voter, bootstrap: tuple[Endpoint, ...]) -> None:
    """Refuse, by ControllerError, to wait for ever where this node can neither lead nor find who does."""
    if len(voters):
        if voters.node_ids == (me.node_id,) and not voters.has(me.key):
            raise ControllerError(
                f"this node's directory.id is {me.key.directory_id}, but the quorum's only voter is node {me.node_id} "
                f"with directory.id {voters.voters[0].key.directory_id}"
            )
        return
    mine = {endpoint for _, endpoint in me.endpoints}
    if all(endpoint in mine for endpoint in bootstrap):
        raise ControllerError(
            "nobody votes in this quorum: format the metadata directory with --standalone or --initial-controllers, "
            "or name other controllers in controller.quorum.bootstrap.servers or controller.quorum.voters"
        )
