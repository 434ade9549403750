"""What a transactional producer is told: in its request's version, and when the log under the coordinator fails."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ErrorCode


def response_error(append_error: ErrorCode) -> ErrorCode:
    """Give the error that a producer understands for what an append to the log failed with."""
    return _RESPONSE_ERRORS.get(append_error, append_error)


def in_version(error: ErrorCode, version: int, knows_fencing_from: int) -> ErrorCode:
    """Give the error as clients of the request's version know it: PRODUCER_FENCED came later (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < knows_fencing_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


_RESPONSE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
