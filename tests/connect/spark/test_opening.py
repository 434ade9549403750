"""Opening what a sink writes to: now, or with the first batch; and what a batch is told that began elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.connect.connector import ConnectError, FencedError, RetriableError, TaskContext
from barnabas.connect.connectors.opening import Opening
from barnabas.model.topic_partition import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Place:
    """Something that cannot be reached for some tries, and then says where partitions go on."""

    def __init__(self, troubles: list[ConnectError], known: Mapping[TopicPartition, int]) -> None:
        self.troubles = troubles
        self.known = known
        self.opened = 0

    def open(self) -> Mapping[TopicPartition, int]:
        if self.troubles:
            raise self.troubles.pop(0)
        self.opened += 1
        return self.known


@pytest.fixture
def task(tmp_path: Path) -> TaskContext:
    return TaskContext("c", 0, 1, tmp_path, batch_begins={P0: 5, P1: 0})


def test_what_is_there_is_opened_once_and_no_batch_is_checked(task: TaskContext) -> None:
    place = Place([], {P0: 3})
    opening = Opening(place.open, task)
    opening.try_now()
    assert opening.known == {P0: 3}
    opening.before_batch()
    assert place.opened == 1


def test_what_cannot_be_reached_is_left_to_the_first_batch(task: TaskContext) -> None:
    place = Place([RetriableError("away"), RetriableError("still away")], {P0: 5})
    opening = Opening(place.open, task)
    opening.try_now()
    assert opening.known is None
    with pytest.raises(RetriableError, match="still away"):
        opening.before_batch()
    opening.before_batch()
    assert opening.known == {P0: 5}
    opening.before_batch()
    assert place.opened == 1


@pytest.mark.parametrize("known", [3, 7])
def test_a_batch_that_begins_elsewhere_than_the_data_says_is_given_up(task: TaskContext, known: int) -> None:
    opening = Opening(Place([RetriableError("away")], {P0: known}).open, task)
    opening.try_now()
    with pytest.raises(FencedError, match=f"t-0 goes on at {known} and not at 5"):
        opening.before_batch()


def test_what_is_wrong_for_good_is_said_at_once(task: TaskContext) -> None:
    opening = Opening(Place([ConnectError("never")], {}).open, task)
    with pytest.raises(ConnectError, match="never"):
        opening.try_now()
