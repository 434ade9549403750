"""DescribeTransactions v0 and ListTransactions v0-2, of what is committed. KIP-664, KIP-1152."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from barnabas.core.transactions.image import TransactionImage
from barnabas.core.transactions.metadata import TransactionMetadata
from barnabas.core.transactions.states import BY_SPELLING, DEAD
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages import describe_transactions, list_transactions
from barnabas.wire.messages.list_transactions import ListTransactionsRequest

Matches = Callable[[str], object]


def whole_match(pattern: str) -> Matches:
    """Give the test whether a regular expression matches the whole of a name; raises INVALID_REGULAR_EXPRESSION."""
    try:
        return re.compile(pattern).fullmatch
    except (re.error, RecursionError, OverflowError) as e:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the pattern {pattern!r} for transactional ids is not a valid regular expression: {e}",
        ) from None


def describe(image: TransactionImage, transactional_id: str) -> describe_transactions.TransactionState:
    """Describe a transactional id; its error is INVALID_REQUEST or TRANSACTIONAL_ID_NOT_FOUND."""
    described = describe_transactions.TransactionState(transactional_id=transactional_id)
    metadata = image.transactions.get(transactional_id)
    if not transactional_id:
        described.error_code = ErrorCode.INVALID_REQUEST
    elif metadata is None or metadata.state is DEAD:
        described.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    else:
        described.transaction_state = metadata.state.spelled
        described.transaction_timeout_ms = metadata.timeout_ms
        described.transaction_start_time_ms = metadata.started_ms
        described.producer_id, described.producer_epoch = metadata.producer
        described.topics = _topics(metadata)
    return described


def _topics(metadata: TransactionMetadata) -> list[describe_transactions.TopicData]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [describe_transactions.TopicData(topic=topic, partitions=ids) for topic, ids in by_topic.items()]


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Give the states that the request filters by and that do not exist."""
    return [name for name in request.state_filters if name not in BY_SPELLING]


def listed(
    image: TransactionImage,
    request: ListTransactionsRequest,
    now_ms: int,
    whole_match: Callable[[str], Matches] = whole_match,
) -> Iterable[list_transactions.TransactionState]:
    """Give the transactional ids that the request's filters leave, in order. An empty filter leaves all.

    whole_match: makes the test of a pattern. Raises what that raises.
    """
    states = {BY_SPELLING[name] for name in request.state_filters if name in BY_SPELLING}
    producer_ids = frozenset(request.producer_id_filters)
    matches = whole_match(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def is_wanted(metadata: TransactionMetadata) -> bool:
        if metadata.state is DEAD or (request.state_filters and metadata.state not in states):
            return False
        if producer_ids and metadata.producer_id not in producer_ids:
            return False
        if request.duration_filter >= 0 and now_ms - metadata.started_ms <= request.duration_filter:
            return False
        return matches is None or bool(matches(metadata.transactional_id))

    for name, metadata in sorted(image.transactions.items()):
        if is_wanted(metadata):
            yield list_transactions.TransactionState(
                transactional_id=name, producer_id=metadata.producer_id, transaction_state=metadata.state.spelled
            )
