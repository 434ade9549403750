"""The APIs of each kind of listener, by module: the only lists there are. What is listed is served; what is not, is not
offered. A module is loaded when its API is first asked for, so that a node starts without it.
ZOOKEEPER lists what clients and other brokers are served in ZooKeeper mode, ZOOKEEPER_CONTROLLER what a broker there
serves as the controller.

An entry `api:module` names a module that is not called as its API. A forwardable API has no handler in BROKER: the
router carries it to the controller (KIP-590). Those of delegation tokens have one, which forwards after a check.
"""

from __future__ import annotations

from typing import Final

BROKER: Final = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "sasl_handshake",
    "api_versions",
    "delete_records",
    "init_producer_id",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "offset_for_leader_epoch",
    "write_txn_markers",
    "txn_offset_commit",
    "describe_acls",
    "describe_configs",
    "alter_replica_log_dirs",
    "describe_log_dirs",
    "sasl_authenticate",
    "create_delegation_token",
    "renew_delegation_token",
    "expire_delegation_token",
    "describe_delegation_token",
    "delete_groups",
    "offset_delete",
    "describe_client_quotas",
    "describe_user_scram_credentials",
    "describe_cluster",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "list_config_resources",
    "describe_topic_partitions",
)
"""What clients are served, by API key."""

TELEMETRY: Final = ("get_telemetry_subscriptions", "push_telemetry")
"""What they are served besides where their metrics have somewhere to go."""

DECISIONS: Final = (
    "create_topics",
    "delete_topics",
    "create_acls",
    "delete_acls",
    "alter_configs",
    "create_partitions",
    "create_delegation_token",
    "renew_delegation_token",
    "expire_delegation_token",
    "elect_leaders",
    "incremental_alter_configs",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "alter_client_quotas",
    "alter_user_scram_credentials",
    "alter_partition",
    "allocate_producer_ids",
)
"""What a controller decides in either mode: what brokers forward, and ask in their own name."""

CONTROLLER: Final = (
    *DECISIONS,
    "fetch:raft_fetch",
    "sasl_handshake",
    "api_versions",
    "describe_acls",
    "describe_configs",
    "sasl_authenticate",
    "vote",
    "begin_quorum_epoch",
    "end_quorum_epoch",
    "describe_quorum",
    "update_features",
    "envelope",
    "fetch_snapshot",
    "describe_cluster:describe_controllers",
    "broker_registration",
    "broker_heartbeat",
    "unregister_broker",
    "controller_registration",
    "assign_replicas_to_dirs",
    "add_raft_voter",
    "remove_raft_voter",
    "update_raft_voter",
)
"""What the controller serves: its own listeners' peers, and requests forwarded by brokers."""

ZOOKEEPER: Final = (
    *BROKER,
    "leader_and_isr",
    "stop_replica",
    "update_metadata",
    "controlled_shutdown",
    "alter_partition",
    "envelope",
    "allocate_producer_ids",
)
"""What a broker in ZooKeeper mode serves: clients, the controller, and as the controller other brokers."""

ZOOKEEPER_CONTROLLER: Final = (*DECISIONS, "controlled_shutdown", "update_features:update_zookeeper_features")
"""What it serves there as the controller: what brokers forward, and ask in their own name."""
