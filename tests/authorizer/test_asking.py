"""What a plug-in is asked for one request, and what becomes of answers that are none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.core.authorizer.loading import LoadingAuthorizer
from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.authorizer import Action, AuthorizationContext, AuthorizerNotReadyError
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.authorization import Authz
from barnabas.server.authorizers import PluginAuthorizer
from barnabas.server.context import ClientConnection
from barnabas.wire.errors import ApiError, ErrorCode

ALICE, BROKER = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "broker")
READ, DESCRIBE, CLUSTER_ACTION = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


class Noting:
    """Allows topics whose names begin with an a, and everything on groups; notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[AuthorizationContext, list[Action]]] = []

    def authorize(self, context: AuthorizationContext, actions: Sequence[Action]) -> list[bool]:
        self.asked.append((context, list(actions)))
        return [a.resource_type is GROUP or a.name.startswith("a") for a in actions]


class Whole(Noting):
    """Knows about whole types too."""

    def authorize_any(self, context: AuthorizationContext, operation: AclOperation, kind: ResourceType) -> bool:
        return (context.principal, operation, kind) == (ALICE, READ, TOPIC)


class Wrong:
    """Answers with something else than is asked for."""

    def __init__(self, answers: Sequence[bool] | Exception) -> None:
        self._answers = answers

    def authorize(self, context: AuthorizationContext, actions: Sequence[Action]) -> Sequence[bool]:
        if isinstance(self._answers, Exception):
            raise self._answers
        return self._answers


def authz(plugin: Noting | Wrong) -> Authz:
    connection = ClientConnection("c", "10.0.0.1", 1, "EXTERNAL", "SASL_SSL", ALICE)
    return Authz(
        PluginAuthorizer(plugin), ALICE, "10.0.0.1", "Metadata", forwarded_by=BROKER, connection=connection,
        client_id="app",
    )  # fmt: skip


@pytest.mark.requirement("F-33", "A-15")
def test_many_questions_are_one_call_with_the_whole_context() -> None:
    plugin = Noting()
    asked = authz(plugin)
    assert asked.authorize_many(DESCRIBE, TOPIC, ["a1", "b", "a1", "a2"], audit_denied=False) == {"a1", "a2"}
    wanted = [Action(DESCRIBE, TOPIC, name, n, log_if_denied=False) for name, n in (("a1", 2), ("b", 1), ("a2", 1))]
    context = AuthorizationContext(ALICE, "10.0.0.1", "EXTERNAL", "SASL_SSL", "app", "Metadata", BROKER)
    assert plugin.asked == [(context, wanted)]
    assert asked.authorized_operations(GROUP, "g") == 1 << 3 | 1 << 8 | 1 << 6 | 1 << 10 | 1 << 11
    assert len(plugin.asked) == 2
    assert not any(action.log_if_allowed or action.log_if_denied for action in plugin.asked[1][1])
    assert asked.authorize(READ, TOPIC, "a")
    assert not asked.authorize(READ, TOPIC, "b")


def test_whole_types_are_asked_about_as_kafka_does_unless_it_knows_better() -> None:
    plugin = Noting()
    assert not authz(plugin).authorize_any(READ, TOPIC)
    assert [action.name for _, actions in plugin.asked for action in actions] == ["hardcode"]
    assert authz(Whole()).authorize_any(READ, TOPIC)
    assert not authz(Whole()).authorize_any(DESCRIBE, TOPIC)


@pytest.mark.parametrize("answers", [[], [True, True], ValueError("no idea")], ids=["none", "two", "raised"])
def test_what_is_no_answer_refuses(answers: Sequence[bool] | Exception) -> None:
    asked = authz(Wrong(answers))
    with pytest.raises(ApiError) as refused:
        asked.authorize(READ, TOPIC, "a")
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert asked.is_ready()


def test_a_plug_in_that_is_not_ready_is_told_apart() -> None:
    asked = authz(Wrong(AuthorizerNotReadyError("soon")))
    with pytest.raises(ApiError) as refused:
        asked.authorize_many(READ, TOPIC, ["a"])
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not asked.is_ready()


@pytest.mark.requirement("A-24", "A-17")
@pytest.mark.parametrize("open_by_default", [False, True])
def test_what_a_node_answers_before_it_knows_its_rules(open_by_default: bool) -> None:
    own = StandardAuthorizer(allow_everyone_if_no_acl=open_by_default)
    loading = LoadingAuthorizer(frozenset({"User:root"}), lambda: own)
    root = KafkaPrincipal("User", "root")
    assert loading.authorize(root, "h", READ, TOPIC, "t").allowed
    assert loading.authorize_by_resource_type(root, "h", READ, TOPIC)
    with pytest.raises(AuthorizerNotReadyError):
        loading.authorize(ALICE, "h", READ, TOPIC, "t")
    with pytest.raises(AuthorizerNotReadyError):
        loading.authorize_by_resource_type(ALICE, "h", READ, TOPIC)
    if open_by_default:
        assert loading.authorize(ALICE, "h", CLUSTER_ACTION, CLUSTER, "kafka-cluster").allowed
    else:
        with pytest.raises(AuthorizerNotReadyError):
            loading.authorize(ALICE, "h", CLUSTER_ACTION, CLUSTER, "kafka-cluster")
    assert not Authz(loading, ALICE, "h", "Fetch").is_ready()
    assert Authz(loading, root, "h", "Fetch").is_ready()
