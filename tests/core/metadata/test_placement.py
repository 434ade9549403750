"""Replica placement: every broker leads its share, racks differ as far as they can, fenced brokers never lead."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.metadata.placement import UsableBroker, place
from barnabas.wire.errors import ApiError, ErrorCode

brokers = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=7).map(
    lambda rows: [UsableBroker(i, rack, fenced) for i, (rack, fenced) in enumerate(rows)]
)


@given(brokers, st.integers(1, 12), st.integers(1, 7), st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_placement_is_sound(usable: list[UsableBroker], partitions: int, factor: int, seed: int) -> None:
    unfenced = {b.id for b in usable if not b.fenced}
    if not unfenced or factor > len(usable):
        with pytest.raises(ApiError) as refused:
            place(usable, partitions, factor, random.Random(seed).randrange)
        assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = place(usable, partitions, factor, random.Random(seed).randrange)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert replicas[0] in unfenced


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_each_broker_leads_its_share(count: int, rounds: int, seed: int) -> None:
    usable = [UsableBroker(i, None, False) for i in range(count)]
    placed = place(usable, count * rounds, 1, random.Random(seed).randrange)
    assert Counter(r[0] for r in placed) == dict.fromkeys(range(count), rounds)


@given(st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_three_racks_hold_one_replica_each(seed: int) -> None:
    usable = [UsableBroker(i, "abc"[i % 3], False) for i in range(6)]
    for replicas in place(usable, 30, 3, random.Random(seed).randrange):
        assert {i % 3 for i in replicas} == {0, 1, 2}
