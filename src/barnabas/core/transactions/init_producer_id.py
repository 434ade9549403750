"""InitProducerId v0-6 of a transactional id: first use, epochs and their end, recovery. KIP-98, KIP-360, KIP-588."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.bumps import Bumps
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.ending import NewProducerId, fenced
from barnabas.core.transactions.metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    NO_TIMEOUT_MS,
    TransactionMetadata,
    created,
    is_exhausted,
)
from barnabas.core.transactions.states import EMPTY, ONGOING
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest


class Wanted(NamedTuple):
    """What a request asks for. expected: who the client thinks its producer is, None when it only begins."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None


def wanted(request: InitProducerIdRequest, config: TransactionConfig) -> Wanted:
    """Give what the request asks for.

    Raises INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, and for two-phase commit (KIP-939), where that is off,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED or UNSUPPORTED_VERSION, as Kafka does.
    """
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if request.enable2_pc and not config.two_phase_commit_enable:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
    if not request.enable2_pc and not 0 < timeout_ms <= config.max_timeout_ms:
        raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    begins = request.producer_id == NO_PRODUCER_ID
    expected = None if begins else Producer(request.producer_id, request.producer_epoch)
    return Wanted(request.transactional_id, timeout_ms, expected)


def initialised(
    metadata: TransactionMetadata | None,
    asked: Wanted,
    bumps: Bumps,
    server_version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> TransactionMetadata:
    """Give the transactional id after the request: EMPTY, or PREPARE_ABORT when an open transaction has to end first.

    server_version: the finalised transaction.version. Raises CONCURRENT_TRANSACTIONS, PRODUCER_FENCED, and what
    new_producer_id raises.
    """
    if metadata is None:
        metadata = created(asked.transactional_id, new_producer_id(), asked.timeout_ms, now_ms)
    if metadata.is_ending:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if asked.expected is not None and not _is_known(metadata, asked.expected, bumps):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if metadata.state is ONGOING:
        return fenced(metadata, server_version, new_producer_id, now_ms)
    producer = _next_producer(metadata, asked.expected, bumps, new_producer_id)
    return metadata.moved(
        EMPTY,
        now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        timeout_ms=asked.timeout_ms,
        partitions=frozenset(),
        started_ms=NO_TIME,
    )


def _is_known(metadata: TransactionMetadata, expected: Producer, bumps: Bumps) -> bool:
    """Say whether the client may be this id's producer; its epoch is looked at when it is bumped.

    It may when nobody was (the coordinator forgot an id that is still in use), when it is, or when it was until its
    epochs were exhausted: the answer that gave it a new producer id may have been lost.
    """
    if metadata.producer_epoch == NO_EPOCH or expected.producer_id == metadata.producer_id:
        return True
    return is_exhausted(expected.epoch) and expected.producer_id == _previous_producer_id(metadata, bumps)


def _previous_producer_id(metadata: TransactionMetadata, bumps: Bumps) -> int:
    """Give whose id it was before. Records of transaction.version 0 do not say; then it is what we remember."""
    before = bumps.before(metadata)
    if metadata.previous_producer_id == NO_PRODUCER_ID and metadata.state is EMPTY and before is not None:
        return before.producer_id
    return metadata.previous_producer_id


def _next_producer(
    metadata: TransactionMetadata, expected: Producer | None, bumps: Bumps, new_producer_id: NewProducerId
) -> Producer:
    current = metadata.producer
    if expected is not None and current.epoch not in (NO_EPOCH, expected.epoch):
        # Kafka fails with UNKNOWN_SERVER_ERROR here when the epochs are exhausted; the question is the same, though.
        if expected.epoch == bumps.last_epoch(metadata) != NO_EPOCH:
            # Whoever had another producer id may ask once, as by the records of later transaction.versions.
            bumps.note(metadata.transactional_id, Producer(current.producer_id, expected.epoch), current)
            return current
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    after = Producer(current.producer_id, current.epoch + 1)
    if metadata.is_exhausted:
        after = Producer(new_producer_id(), 0)
    if expected is not None:
        bumps.note(metadata.transactional_id, current, after)
    else:  # somebody new began: whoever was before is a zombie, also one whose bump the log refused
        bumps.forget(metadata.transactional_id)
    return after
