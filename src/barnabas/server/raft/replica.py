"""Opens this node's replica of the metadata log: a voter's or an observer's, as its directories and settings say."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from barnabas.core.raft.control import ControlState
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.voters import ReplicaKey
from barnabas.model.ports import Clock
from barnabas.server.config import NodeConfig
from barnabas.server.peer_channels import peer_settings
from barnabas.server.raft.driver import RaftDriver
from barnabas.server.raft.metadata_log import MetadataLog
from barnabas.server.raft.peers import RaftPeers
from barnabas.server.raft.progress import StateMachine
from barnabas.server.raft.quorum import (
    ControllerError,
    append_linger_ms,
    check_voters,
    configured_voters,
    local_voter,
    log_settings,
    quorum_settings,
)
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.fs import FileSystem, OsFileSystem
from barnabas.storage.meta_properties import read_meta_properties


def open_replica(config: NodeConfig, clock: Clock, machine: StateMachine, fs: FileSystem | None = None) -> RaftDriver:
    """Open the metadata log and restore its newest snapshot; `run` does the rest. May block: call it on a thread.

    Who it is stands in `meta.properties`. ControllerError, ConfigError, MetaPropertiesError, MetadataLogError or
    ProtocolError when it cannot be.
    """
    fs = fs or OsFileSystem()
    directory = Path(config.metadata_log_dir)
    properties = read_meta_properties(directory, fs)
    if properties is None or properties.directory_id is None:
        raise ControllerError(f"{directory} is not formatted; use `barnabas storage format`")
    me = local_voter(config, ReplicaKey(properties.node_id, properties.directory_id))
    quorum = quorum_settings(config)
    settings = log_settings(config)
    files = MetadataLog.open(LogEnvironment(fs, clock), directory, settings)
    control = ControlState(configured_voters(config))
    files.load_control(control)
    check_voters(control.voters.last.value, me, quorum.bootstrap)
    node = RaftNode(
        Identity(me.key, me),
        files.load_election(),
        files.state(),
        control,
        quorum,
        random.SystemRandom(),
        clock.now_ms(),
        cluster_id=properties.cluster_id,
        max_batch_bytes=settings.max_batch_bytes,
    )
    driver = RaftDriver(
        node,
        files,
        machine,
        clock,
        settings,
        me=me,
        peers=RaftPeers(
            partial(peer_settings, config, quorum.listener, f"raft-client-{config.node_id}"), quorum.listener
        ),
        linger_ms=append_linger_ms(config),
    )
    if not control.voters.last.value.is_only(me.key):
        driver.peers.prepare()
    driver.load()
    return driver
