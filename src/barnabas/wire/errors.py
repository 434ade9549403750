"""Kafka's error codes, and the two exceptions of the wire: one is answered, the other ends the connection."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """Every error of Kafka 4.3, and AUTHORIZER_NOT_READY, which is ours (only ever inside Envelope v1)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    AUTHORIZER_NOT_READY = 30801

    @property
    def message(self) -> str:
        """Give the text that clients see when there is nothing more exact to say; empty for NONE."""
        return _MESSAGES[self]

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later (Kafka's RetriableException)."""
        return self in _RETRIABLE


class ApiError(Exception):
    """A refusal that is answered with this code; message: what the client reads, None for the code's own text."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message or code.message}")
        self.code = code
        self.message = message if message is not None else code.message or None


class ProtocolError(Exception):
    """Bytes that cannot be what they should be, or a value that cannot be written as bytes."""


_MESSAGES: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the server failed in a way it did not expect; its log says why",
    ErrorCode.NONE: "",
    ErrorCode.OFFSET_OUT_OF_RANGE: "that offset is not in the log",
    ErrorCode.CORRUPT_MESSAGE: "the batch is corrupt (checksum, size), or lacks a key that a compacted topic needs",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "this server does not host that topic or partition",
    ErrorCode.INVALID_FETCH_SIZE: "the fetch size is invalid",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "this broker is not the leader, or not a replica, of that partition",
    ErrorCode.REQUEST_TIMED_OUT: "the request was not finished within its time limit",
    ErrorCode.BROKER_NOT_AVAILABLE: "the broker is not available",
    ErrorCode.REPLICA_NOT_AVAILABLE: "the replica is not available for that partition",
    ErrorCode.MESSAGE_TOO_LARGE: "a record batch is larger than the server accepts",
    ErrorCode.STALE_CONTROLLER_EPOCH: "the controller has moved to another node",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "the metadata given with the offset is too long",
    ErrorCode.NETWORK_EXCEPTION: "the server closed the connection before it answered",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading its state",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not available",
    ErrorCode.NOT_COORDINATOR: "this broker is not the coordinator for that key",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic's name is invalid, or the topic does not allow this operation",
    ErrorCode.RECORD_LIST_TOO_LARGE: "the batches are larger than a log segment may be",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than required; nothing was written",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the records were written, but to fewer in-sync replicas than required",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be -1, 0 or 1",
    ErrorCode.ILLEGAL_GENERATION: "the group has another generation",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the member's protocols do not fit those of the group, or are missing",
    ErrorCode.INVALID_GROUP_ID: "the group id is invalid",
    ErrorCode.UNKNOWN_MEMBER_ID: "the coordinator does not know this member",
    ErrorCode.INVALID_SESSION_TIMEOUT: "the session timeout is outside the range the broker allows",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing; join again",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "the offsets to commit are too large",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized for the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized for the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not authorized for the cluster",
    ErrorCode.INVALID_TIMESTAMP: "a record's timestamp is outside the accepted range",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "the listener does not offer that SASL mechanism",
    ErrorCode.ILLEGAL_SASL_STATE: "the request does not belong to this step of the SASL exchange",
    ErrorCode.UNSUPPORTED_VERSION: "that version of the API is not supported",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of that name exists already",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is invalid",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the replication factor is below 1 or above the number of usable brokers",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "the replica assignment is invalid",
    ErrorCode.INVALID_CONFIG: "the configuration is invalid",
    ErrorCode.NOT_CONTROLLER: "this node is not the active controller",
    ErrorCode.INVALID_REQUEST: "the request is malformed or contradicts itself",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "the format of the records does not support the request",
    ErrorCode.POLICY_VIOLATION: "a policy of this cluster refuses the request",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the producer's sequence number does not follow the last one",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "the producer's sequence number was seen before",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer's epoch is old",
    ErrorCode.INVALID_TXN_STATE: "the transaction is not in a state for this operation",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the producer id does not belong to the transactional id",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the transaction timeout is above what the broker allows",
    ErrorCode.CONCURRENT_TRANSACTIONS: "another operation on the same transaction is under way",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "a newer coordinator has taken over the producer's transactions",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not authorized for the transactional id",
    ErrorCode.SECURITY_DISABLED: "security features are off",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "not tried, because another part of the request failed",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk failed while reading or writing the log",
    ErrorCode.LOG_DIR_NOT_FOUND: "the broker has no such log directory",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "authentication failed",
    ErrorCode.UNKNOWN_PRODUCER_ID: "the broker no longer knows this producer's state",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "the partition is being reassigned",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "delegation tokens are not enabled",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no such delegation token",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "the principal is neither owner nor renewer of the token",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "delegation tokens cannot be handled over this kind of connection",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "not authorized for the delegation token",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the delegation token has expired",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "that type of principal is not supported",
    ErrorCode.NON_EMPTY_GROUP: "the group still has members",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "there is no such fetch session",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "the fetch session has another epoch",
    ErrorCode.LISTENER_NOT_FOUND: "the leader has no listener of the name the request came in by",
    ErrorCode.TOPIC_DELETION_DISABLED: "deleting topics is switched off",
    ErrorCode.FENCED_LEADER_EPOCH: "the leader epoch in the request is older than the broker's",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the leader epoch in the request is newer than the broker's",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the client cannot read the compression of this partition's records",
    ErrorCode.STALE_BROKER_EPOCH: "the broker has registered again since",
    ErrorCode.OFFSET_NOT_AVAILABLE: "the new leader does not know its high watermark yet",
    ErrorCode.MEMBER_ID_REQUIRED: "join again with the member id given here",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader is not available",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full",
    ErrorCode.FENCED_INSTANCE_ID: "another member has taken over this group instance id",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no replica may become leader",
    ErrorCode.ELECTION_NOT_NEEDED: "the partition has the right leader already",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "the partition is not being reassigned",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group is subscribed to the topic, so its offsets stay",
    ErrorCode.INVALID_RECORD: "a record did not pass the broker's checks",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "offsets of an open transaction are pending",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "the quota is used up; try again later",
    ErrorCode.PRODUCER_FENCED: "a newer producer uses the same transactional id",
    ErrorCode.RESOURCE_NOT_FOUND: "there is no such resource",
    ErrorCode.DUPLICATE_RESOURCE: "the request names a resource twice",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "the credential does not meet the requirements",
    ErrorCode.INCONSISTENT_VOTER_SET: "sender or receiver is not one of the voters expected",
    ErrorCode.INVALID_UPDATE_VERSION: "the version to update to is invalid",
    ErrorCode.FEATURE_UPDATE_FAILED: "the features could not be updated",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "the principal of a forwarded request could not be read",
    ErrorCode.SNAPSHOT_NOT_FOUND: "there is no such snapshot",
    ErrorCode.POSITION_OUT_OF_RANGE: "the position is outside the snapshot",
    ErrorCode.UNKNOWN_TOPIC_ID: "this server does not host a topic of that id",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another live broker has this id",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "no broker is registered under this id",
    ErrorCode.INCONSISTENT_TOPIC_ID: "the log belongs to a topic of another id",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "this server belongs to another cluster",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "the fetch session mixes topic ids and names",
    ErrorCode.INELIGIBLE_REPLICA: "the new in-sync set names a replica that may not be in it",
    ErrorCode.NEW_LEADER_ELECTED: "the change was made, and with it the leader changed",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "that offset is in remote storage",
    ErrorCode.FENCED_MEMBER_EPOCH: "the member's epoch is fenced; give up all partitions and join again",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another member still holds this group instance id",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the group does not support that assignor",
    ErrorCode.STALE_MEMBER_EPOCH: "the member's epoch is old; send a heartbeat first",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "the request went to the wrong type of endpoint",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "that type of endpoint is not supported",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "there is no controller of that id",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "the telemetry subscription is invalid or out of date",
    ErrorCode.TELEMETRY_TOO_LARGE: "the telemetry is larger than the broker accepts",
    ErrorCode.INVALID_REGISTRATION: "the controller does not accept the registration",
    ErrorCode.TRANSACTION_ABORTABLE: "the transaction failed; abort it and go on with the same transactional id",
    ErrorCode.INVALID_RECORD_STATE: "the record cannot be acknowledged in its state",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "there is no such share session",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "the share session has another epoch",
    ErrorCode.FENCED_STATE_EPOCH: "the share group's state has another epoch",
    ErrorCode.INVALID_VOTER_KEY: "the voter key is not this replica's",
    ErrorCode.DUPLICATE_VOTER: "the replica is a voter already",
    ErrorCode.VOTER_NOT_FOUND: "the replica is not a voter",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "the regular expression is invalid",
    ErrorCode.REBOOTSTRAP_REQUIRED: "the client's metadata is out of date; begin again from the bootstrap servers",
    ErrorCode.STREAMS_INVALID_TOPOLOGY: "the topology is invalid",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "the topology's epoch is invalid",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "the topology's epoch is old",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "there are too many share sessions",
    ErrorCode.AUTHORIZER_NOT_READY: "the controller is still loading its rules; try again",
}
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.AUTHORIZER_NOT_READY,
    }
)
