"""Who a controller is in the metadata quorum, and how its log is to be kept: what the configuration says of it."""

from __future__ import annotations

from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet, static_voters
from barnabas.model.features import SUPPORTED_FEATURES
from barnabas.server.config import PROTOCOLS, NodeConfig
from barnabas.server.format import random_uuid
from barnabas.server.metadata_log import MetadataLogSettings
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


def check_voters(voters: VoterSet, key: ReplicaKey) -> None:
    """Refuse, by ControllerError, to wait for ever where this node can never lead."""
    if voters.is_only(key):
        return
    if not len(voters):
        raise ControllerError(
            "nobody votes in this quorum: format the metadata directory with --standalone, "
            "or set controller.quorum.voters"
        )
    if voters.has(key):
        raise ControllerError(f"the quorum has the voters {voters.node_ids}, but only a quorum of one is supported yet")
    raise ControllerError(
        f"node {key.node_id} with directory.id {key.directory_id} is not among the voters {voters.node_ids}"
    )
