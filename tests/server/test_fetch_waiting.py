"""A fetch that waits: how often it looks, whatever happens to how many partitions in one turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.model.uuid import ZERO_UUID
from barnabas.server.replication.fetch_reading import Reading
from barnabas.server.replication.fetch_sessions import FetchPlan, Wanted
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

PARTITIONS = 1_000


class Looking(Reading):
    """Counts its looks at partitions. fenced: those that have another leader epoch by now."""

    def __init__(self) -> None:
        wanted = [Wanted("t", ZERO_UUID, FetchPartition(partition=n)) for n in range(PARTITIONS)]
        super().__init__(FetchRequest(min_bytes=1), FetchPlan(wanted), cast("RequestContext", None), 1_000)
        self.fenced: set[int] = set()
        self.looks = 0

    def read_partition(self, wanted: Wanted, answer: PartitionData) -> None:
        self.looks += 1
        if wanted.request.partition in self.fenced:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)

    def _refuse(self, wanted: Wanted, answer: PartitionData, code: ErrorCode) -> None:
        answer.error_code, self.failed = code, True

    def finish(self, answers: list[PartitionData]) -> FetchResponse:
        return self.respond(list(zip(self.wanted, answers, strict=True)))

    def watch(self) -> None:
        pass

    def unwatch(self) -> None:
        pass


def test_roles_that_change_in_one_turn_are_looked_at_once() -> None:
    reading, answers = Looking(), []
    reading.begin(lambda: answers.append(reading.read()))
    reading.grown()
    assert (reading.looks, answers) == (PARTITIONS, [])
    for number in range(PARTITIONS):
        reading.fenced.add(number)
        reading.grown()
    assert reading.looks <= 3 * PARTITIONS
    (answer,) = answers
    assert [n for n, one in enumerate(answer) if one.error_code] == [0]


def test_a_fetch_that_begins_to_wait_again_looks_again() -> None:
    reading, answers = Looking(), []
    reading.begin(lambda: answers.append(1))
    reading.release()
    reading.begin(lambda: answers.append(2))
    reading.fenced.add(0)
    reading.grown()
    assert answers == [1, 2]
