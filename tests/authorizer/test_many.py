"""A live node with a hundred thousand rules and ten thousand topics: what it does for a request, counted."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from immutables import Map

from barnabas.cli.acls.removal import MOST_AT_A_TIME
from barnabas.cli.main import main
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

from .hammer import filter_of, rule

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
K = ApiKey
CONTROLLER, BROKER = 101, 1
RULES, A_BATCH = 100_000, 10_000
CHURN, CHURN_ROUNDS = 100, 10
CALLS_A_RULE = 300
EVERYTHING_ON_SURPLUS: dict[str, Any] = {
    "resource_type_filter": 2, "resource_name_filter": "surplus", "pattern_type_filter": 3,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
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
    count = cluster.look(lambda: cluster.nodes[CONTROLLER].acl_count()) + 1
    with cluster.frames(BROKER, "alice") as alice, cluster.frames(BROKER) as root:
        assert alice.call(asked).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer = root.call(build(K.CREATE_ACLS, creations=[rule("topic-9", "alice", operation=4)]))
        assert [r.error_code for r in answer.results] == [0]
        cluster.wait(lambda: cluster.nodes[BROKER].acl_count() == count, True)
        assert alice.call(asked).error_code == 0


class Steps:
    """Counts what the loop does from one of its passes to the next, while it is watched: nothing else gets on then.

    most: the most calls, of Python and C alike, in one pass; walks: who went over a whole map of many rules.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.most = self.passes = 0
        self.walks: list[str] = []
        self._loop = loop
        self._calls = 0
        self._watching = True

    def begin(self) -> None:
        """Begin, in the loop's thread."""
        sys.setprofile(self._called)
        self._loop.call_soon(self._passed)

    def end(self) -> None:
        """End, in the loop's thread."""
        sys.setprofile(None)
        self._watching = False

    def _passed(self) -> None:
        self.most, self.passes, self._calls = max(self.most, self._calls), self.passes + 1, 0
        if self._watching:
            self._loop.call_soon(self._passed)

    def _called(self, frame: FrameType, event: str, what: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1
            of = getattr(what, "__self__", None)
            if isinstance(of, Map) and len(of) > RULES // 2 and what.__name__ in ("items", "keys", "values"):
                self.walks.append(f"{frame.f_code.co_qualname} in {frame.f_code.co_filename}")


@pytest.mark.requirement("H-12", "A-15")
def test_a_node_that_takes_up_thousands_of_changes_never_stops_for_the_rules_it_has(cluster: InProcess) -> None:
    """What the loop does at a time follows the size of a change, in calls for each rule of it, whatever there is."""
    fillers = [rule(f"churn-{n}", f"user-{n}") for n in range(CHURN)]
    steps = Steps(cluster.do(_running_loop()))
    with cluster.frames(BROKER) as root, cluster.frames(BROKER, "bob") as bob:
        cluster.look(steps.begin)
        try:
            answers = 0
            for turn in range(CHURN_ROUNDS):
                assert {r.error_code for r in root.call(build(K.CREATE_ACLS, creations=fillers)).results} == {0}
                asked = build(K.METADATA, topics=[{"name": f"churn-{n}"} for n in range(10)])
                asked.allow_auto_topic_creation = False
                refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                answers += {t.error_code for t in bob.call(asked).topics} == {refused}
                if turn == 0:
                    narrow = {**EVERYTHING_ON_SURPLUS, "resource_name_filter": "churn-5"}
                    while not (described := root.call(build(K.DESCRIBE_ACLS, **narrow)).resources):
                        pass  # a broker learns of a change a moment later
                    assert [r.resource_name for r in described] == ["churn-5"]
                gone = root.call(build(K.DELETE_ACLS, filters=[filter_of(one) for one in fillers]))
                assert [len(f.matching_acls) for f in gone.filter_results] == [1] * CHURN
        finally:
            cluster.look(steps.end)
    assert answers == CHURN_ROUNDS
    assert steps.passes > 10 * CHURN_ROUNDS
    assert all("looked_through" in walk for walk in steps.walks), "and that gives way"
    assert steps.most < CALLS_A_RULE * CHURN < RULES, "both nodes share this loop"


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


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


@pytest.mark.requirement("H-20")
def test_the_tool_divides_what_one_request_may_not_remove(
    cluster: InProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    surplus = MOST_AT_A_TIME + 5

    def write(_: MetadataImage) -> Decision[None]:
        return Decision(tuple(VersionedRecord(AccessControlEntryRecord(
            id=random_uuid(), resource_type=2, resource_name="surplus", pattern_type=3, principal="User:x",
            host=f"10.0.{n // 250}.{n % 250}", operation=AclOperation.READ, permission_type=3,
        ), 0) for n in range(surplus)), None, atomic=False)  # fmt: skip

    before = cluster.look(lambda: cluster.nodes[CONTROLLER].acl_count())
    cluster.do(cluster.nodes[CONTROLLER].controller.write(write))
    cluster.wait(lambda: cluster.nodes[BROKER].acl_count(), before + surplus)
    with cluster.frames(BROKER) as root:
        (refused,) = root.call(build(K.DELETE_ACLS, filters=[EVERYTHING_ON_SURPLUS])).filter_results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert f"more than {MOST_AT_A_TIME} rules" in refused.error_message
    assert cluster.look(lambda: cluster.nodes[CONTROLLER].acl_count()) == before + surplus
    settings = tmp_path / "root.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security."
        'plain.PlainLoginModule required username="root" password="root-secret";\n'
    )
    at = ["--bootstrap-server", f"127.0.0.1:{cluster.ports[BROKER]}", "--command-config", str(settings)]
    with pytest.raises(SystemExit) as ended:
        main(["acls", *at, "--remove", "--force", "--topic", "surplus", "--output", "json"])
    assert ended.value.code in (None, 0)
    assert capsys.readouterr().out.count('"name": "surplus"') == surplus
    cluster.wait(lambda: {node.acl_count() for node in cluster.nodes.values()}, {before})


def test_it_starts_with_them(cluster: InProcess) -> None:
    before = cluster.look(lambda: cluster.nodes[CONTROLLER].acl_count())
    cluster.stop_node(BROKER)
    cluster.start_node(BROKER)
    assert cluster.look(lambda: cluster.nodes[BROKER].acl_count()) == before
