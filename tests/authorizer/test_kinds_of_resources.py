"""Rules on transactional ids, users and delegation tokens, by each kind of pattern, as requests meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.model.acl import AclOperation, PatternType, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.forwarding.in_process import InProcess
from tests.server.frames import FramePeer
from tests.server.requests import build

from .hammer import filter_of, rule

pytestmark = pytest.mark.slow
K, E = ApiKey, ErrorCode
BROKER = 1
T, O = ResourceType, AclOperation  # noqa: E741
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = tmp_path_factory.mktemp("kinds")
    with InProcess(
        folder, controllers=(101,), brokers=(BROKER,), delegation__token__secret__key="of all nodes"
    ) as found:
        yield found


def may_have_id(bob: FramePeer, name: str) -> bool:
    """Say whether bob gets a producer id for a transactional id."""
    answer = bob.call(build(K.INIT_PRODUCER_ID, transactional_id=name))
    return bool(answer.error_code != E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def may_make_token(bob: FramePeer, name: str) -> bool:
    """Say whether bob may make a token for a user."""
    owner = {"owner_principal_type": "User", "owner_principal_name": name.removeprefix("User:")}
    answer = bob.call(build(K.CREATE_DELEGATION_TOKEN, max_lifetime_ms=-1, **owner))
    assert answer.error_code in (E.NONE, E.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return bool(answer.error_code == E.NONE)


def may_see_token(bob: FramePeer, name: str) -> bool:
    """Say whether bob is shown a token of somebody else."""
    answer = bob.call(build(K.DESCRIBE_DELEGATION_TOKEN, owners=None))
    assert answer.error_code == E.NONE
    return name in {token.token_id for token in answer.tokens}


def names(cluster: InProcess, kind: ResourceType) -> list[str]:
    """Give two names of which neither begins with the other."""
    if kind is not T.DELEGATION_TOKEN:
        return {T.TRANSACTIONAL_ID: ["payments-1", "refunds-1"], T.USER: ["User:carol", "User:dave"]}[kind]
    found = []
    for _ in range(2):
        made = cluster.ask(BROKER, K.CREATE_DELEGATION_TOKEN, max_lifetime_ms=-1)
        cluster.wait(lambda made=made: made.token_id in cluster.nodes[BROKER].image().tokens.by_id, True)  # type: ignore[misc]
        found.append(made.token_id)
    return found


@pytest.mark.requirement("A-03")
@pytest.mark.parametrize(
    ("kind", "operation", "may"),
    [
        (T.TRANSACTIONAL_ID, O.WRITE, may_have_id),
        (T.USER, O.CREATE_TOKENS, may_make_token),
        (T.DELEGATION_TOKEN, O.DESCRIBE, may_see_token),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_kind_of_pattern_counts(
    cluster: InProcess, kind: ResourceType, operation: AclOperation, may: Callable[[FramePeer, str], bool]
) -> None:
    name, other = names(cluster, kind)
    differing = next(n for n, (a, b) in enumerate(zip(name, other, strict=False)) if a != b)
    with cluster.frames(BROKER, "bob") as bob, cluster.frames(BROKER) as root:

        def seen() -> list[bool]:
            return [may(bob, one) for one in (name, other)]

        def changed(key: ApiKey, **fields: Any) -> None:
            answer = root.call(build(key, **fields))
            assert {r.error_code for r in getattr(answer, "results", None) or answer.filter_results} == {0}
            controller, broker = cluster.nodes[101], cluster.nodes[BROKER]
            cluster.wait(lambda: controller.acl_count() == broker.acl_count(), True)

        assert seen() == [False, False]
        for pattern, pattern_type, wanted in (
            (name, LITERAL, [True, False]),
            (name[:-1], LITERAL, [False, False]),
            (name[: 1 + differing], PREFIXED, [True, False]),
            ("*", LITERAL, [True, True]),
        ):
            granted = {**rule(pattern, operation=operation), "resource_type": kind}
            granted["resource_pattern_type"] = pattern_type
            changed(K.CREATE_ACLS, creations=[granted])
            assert seen() == wanted, (pattern, pattern_type)
            changed(K.DELETE_ACLS, filters=[{**filter_of(granted), "pattern_type_filter": pattern_type}])
            assert seen() == [False, False]
