"""What an operator can set about transactions; the names and defaults are Kafka's (TransactionStateManagerConfig)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Limits and delays of the transaction coordinator. Durations in ms.

    max_timeout_ms: transaction.max.timeout.ms. id_expiration_ms: transactional.id.expiration.ms.
    abort_timed_out_interval_ms: transaction.abort.timed.out.transaction.cleanup.interval.ms.
    remove_expired_interval_ms: transaction.remove.expired.transaction.cleanup.interval.ms.
    two_phase_commit_enable: transaction.two.phase.commit.enable (KIP-939).
    """

    max_timeout_ms: int = 15 * 60_000
    id_expiration_ms: int = 7 * 24 * 60 * 60_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 60 * 60_000
    two_phase_commit_enable: bool = False
