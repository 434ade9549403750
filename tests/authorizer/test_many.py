"""A live node with a hundred thousand rules and ten thousand topics: what it does for a request, counted."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from barnabas.cli.run import GC_THRESHOLD
from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.format import random_uuid
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from tests.forwarding.in_process import InProcess
from tests.server.requests import build

from .hammer import rule

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
K = ApiKey
CONTROLLER, BROKER = 101, 1
RULES, A_BATCH = 100_000, 10_000
TOPICS = 10_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    threshold = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *threshold[1:])  # as `barnabas start` has it
    try:
        with InProcess(tmp_path_factory.mktemp("many"), controllers=(CONTROLLER,), brokers=(BROKER,)) as found:
            fill(found)
            yield found
    finally:
        gc.set_threshold(*threshold)


def fill(cluster: InProcess) -> None:
    """Write rules about a thousand users and as many topics as there are rules; one in ten is a prefix."""

    def written(first: int) -> Callable[[MetadataImage], Decision[None]]:
        records = tuple(
            VersionedRecord(
                AccessControlEntryRecord(
                    id=random_uuid(), resource_type=2, resource_name=f"topic-{n}", pattern_type=4 if n % 10 == 0 else 3,
                    principal=f"User:user-{n % 1000}", host="*", operation=AclOperation.READ, permission_type=3,
                ),
                0,
            )
            for n in range(first, first + A_BATCH)
        )  # fmt: skip
        return lambda _: Decision(records, None, atomic=False)

    controller = cluster.nodes[CONTROLLER].controller
    for first in range(0, RULES, A_BATCH):
        cluster.do(controller.write(written(first)))
    cluster.wait(lambda: cluster.nodes[BROKER].acl_count() >= RULES, True)


def calls_of(work: Callable[[], object]) -> int:
    """Give how many calls, of Python and C alike, some work takes."""
    count = 0

    def called(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.requirement("H-19")
def test_what_a_check_costs_depends_on_the_rules_that_match(cluster: InProcess) -> None:
    full = cluster.look(lambda: cluster.nodes[BROKER].authorizer())
    assert isinstance(full, StandardAuthorizer)
    few = StandardAuthorizer(full.super_users).with_acls(
        [(i, acl) for i, acl in full.by_id.items() if acl.pattern.name in ("topic-7", "topic-70")]
    )
    assert full.acl_count > RULES
    for name, operation in (("user-7", AclOperation.READ), ("user-7", AclOperation.WRITE), ("new", AclOperation.WRITE)):
        asks = KafkaPrincipal("User", name), "127.0.0.1", operation, ResourceType.TOPIC
        one = [calls_of(partial(a.authorize, *asks, "topic-7")) for a in (few, full)]
        whole = [calls_of(partial(a.authorize_by_resource_type, *asks)) for a in (few, full)]
        # A prefix is looked for once for each length that there is: five here, one where the rules are few.
        assert one[1] <= one[0] + 10
        assert whole[1] <= whole[0] + 10


@pytest.mark.requirement("H-19")
def test_an_idempotent_producer_is_let_in_by_a_right_on_any_topic(cluster: InProcess) -> None:
    asked = build(K.INIT_PRODUCER_ID, transactional_id=None)
    with cluster.frames(BROKER, "alice") as alice, cluster.frames(BROKER) as root:
        assert alice.call(asked).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer = root.call(build(K.CREATE_ACLS, creations=[rule("topic-9", "alice", operation=4)]))
        assert [r.error_code for r in answer.results] == [0]
        count = RULES + 2  # and the one for broker 2
        cluster.wait(lambda: cluster.nodes[BROKER].acl_count() == count, True)
        assert alice.call(asked).error_code == 0


def test_ten_thousand_topics_are_checked_each_once(cluster: InProcess) -> None:
    granted = [rule("many-", "bob", operation=8)]
    granted[0]["resource_pattern_type"] = 4
    with cluster.frames(BROKER) as root, cluster.frames(BROKER, "bob") as bob:
        assert root.call(build(K.CREATE_ACLS, creations=granted)).results[0].error_code == 0
        names = [f"{'many' if n % 2 else 'few'}-{n}" for n in range(TOPICS)]
        asked = build(K.METADATA, topics=[{"name": name} for name in names])
        asked.allow_auto_topic_creation = False

        def shown() -> int:
            answer = bob.call(asked)
            assert len(answer.topics) == TOPICS
            return sum(t.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for t in answer.topics)

        while shown() == 0:
            pass
        assert shown() == TOPICS // 2


def test_it_starts_with_them(cluster: InProcess) -> None:
    before = cluster.look(lambda: cluster.nodes[BROKER].acl_count())
    cluster.stop_node(BROKER)
    cluster.start_node(BROKER)
    assert cluster.look(lambda: cluster.nodes[BROKER].acl_count()) == before
