"""What idempotence and transactions cost, and what is read of committed ones; librdkafka on either system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from bench import transactional
from bench.goals import Measured, Results
from bench.librdkafka import Librdkafka, Rate
from bench.systems import System
from bench.transactional import TransactionRate, Transactions

PARTITIONS: Final = 3
PRODUCERS: Final = (1, 50)
_PROPERTIES: Final = {"transaction.state.log.num.partitions": "50"}
"""Kafka's own default; the tests' node has fewer."""
SMALL: Final = Transactions(records=10, size=100)
LARGE: Final = Transactions(records=1_000, size=1_000, abort_each=10)
_WINDOW: Final = 5
_TOPICS: Final = ("plain", "idempotent", "transactions", "committed")
_WARM_RECORDS: Final = 100_000
_FIRST_RECORDS: Final = 100
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TransactionSizes:
    """How much is done. records: of 1 KB; seconds: of small transactions; limit_s: bounds each load of records."""

    repeats: int
    records: int
    seconds: float
    warm_up_s: float
    limit_s: float


FULL: Final = TransactionSizes(repeats=5, records=1_000_000, seconds=6, warm_up_s=6, limit_s=20)
QUICK: Final = TransactionSizes(repeats=2, records=200_000, seconds=3, warm_up_s=3, limit_s=8)


def measure_transactions(kind: type[System], work: Path, sizes: TransactionSizes, results: Results, say: Say) -> None:
    """Measure one system, plain."""
    with kind(work / "transactions", secured=False, properties=_PROPERTIES) as system:
        system.prepare()
        system.start()
        loads = _Loads(system, sizes, results, say)
        asyncio.run(_create_topics(system.admin()))
        loads.warm_up()
        loads.run()


async def _create_topics(config: Mapping[str, str]) -> None:
    async with Admin(ClientConfig.from_properties(config)) as admin:
        for error in (await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in _TOPICS])).values():
            if error is not None:
                raise error


class _Loads:
    def __init__(self, system: System, sizes: TransactionSizes, results: Results, say: Say) -> None:
        self._system = system
        self._config = system.admin()
        self._sizes = sizes
        self._results = results
        self._say = say
        self._library = Librdkafka()

    def warm_up(self) -> None:
        """Run the loads for a moment: a JVM compiles what runs often."""
        self._say("  warm up")
        for idempotent in (False, True):
            self._produce(idempotent=idempotent, records=_WARM_RECORDS)
        for producers in PRODUCERS:
            self._transactions(producers, self._sizes.warm_up_s)

    def run(self) -> None:
        """Measure every row."""
        self._idempotence()
        for producers in PRODUCERS:
            self._say(f"  transactions-{producers}")
            for _ in range(self._sizes.repeats):
                self._note(
                    f"transactions-{producers}",
                    partial(self._transactions, producers, self._sizes.seconds),
                    lambda rate: rate.per_second,
                    lambda rate: rate.transactions,
                )
        self._read_committed()

    def _idempotence(self) -> None:
        """Produce by turns, without and with it."""
        for number in range(self._sizes.repeats):
            self._say("  idempotent-1k")
            rates: dict[bool, Rate] = {}
            for idempotent in (False, True) if number % 2 else (True, False):
                rates[idempotent] = self._note(
                    "idempotent-1k" if idempotent else "plain-1k",  # which has no row
                    partial(self._produce, idempotent=idempotent, records=self._sizes.records),
                    lambda rate: rate.mb_per_second,
                    lambda rate: rate.records,
                )
            cost = rates[False].mb_per_second / rates[True].mb_per_second
            self._results.setdefault("idempotent-cost", Measured()).values.append(cost)

    def _read_committed(self) -> None:
        filled = transactional.fill(
            self._library, self._config, "committed", LARGE, partitions=PARTITIONS, records=self._sizes.records
        )
        for _ in range(self._sizes.repeats + 1):
            self._say("  fetch-committed-1k")
            self._note(
                "fetch-committed-1k",
                lambda: self._library.fetch(
                    {**self._config, "isolation.level": "read_committed"},
                    "committed",
                    partitions=PARTITIONS,
                    records=filled.records,
                    size=LARGE.size,
                    limit_s=self._sizes.limit_s,
                ),
                lambda rate: rate.mb_per_second,
                lambda rate: rate.records,
            )
        measured = self._results["fetch-committed-1k"]
        del measured.values[0], measured.cpu_us[0]  # to warm up

    def _produce(self, *, idempotent: bool, records: int) -> Rate:
        # As many requests under way as idempotence allows in either case: it is not the window that is compared.
        config = {**self._config, "enable.idempotence": str(idempotent).lower(), "max.in.flight": str(_WINDOW)}
        topic = "idempotent" if idempotent else "plain"
        return self._library.produce(
            config, topic, records=records, size=1000, limit_s=self._sizes.limit_s, first=_FIRST_RECORDS
        )

    def _transactions(self, producers: int, seconds: float) -> TransactionRate:
        return transactional.measure(
            self._library,
            self._config,
            "transactions",
            SMALL,
            partitions=PARTITIONS,
            producers=producers,
            seconds=seconds,
        )

    def _note(
        self, key: str, load: Callable[[], Any], value: Callable[[Any], float], count: Callable[[Any], int]
    ) -> Any:
        """Run a load and keep its figures."""
        before = self._system.cpu_s()
        outcome = load()
        spent = self._system.cpu_s() - before
        measured = self._results.setdefault(key, Measured())
        measured.values.append(value(outcome))
        measured.cpu_us.append(spent / count(outcome) * 1e6)
        return outcome
