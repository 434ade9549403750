"""The table of znodes: every path finds its row, and the tops are Kafka 3.9's."""

from __future__ import annotations

import pytest

from barnabas.core.zookeeper.paths import (
    CREATED_ROOTS,
    FILLED_ROOTS,
    SECURE_ROOTS,
    ZNODES,
    ZnodeKind,
    child,
    is_covered,
    is_secret,
    kind_of,
    parent,
)

_OF_3_9 = {
    "/admin", "/brokers", "/cluster", "/config", "/controller", "/controller_epoch", "/isr_change_notification",
    "/latest_producer_id_block", "/log_dir_event_notification", "/delegation_token", "/kafka-acl", "/kafka-acl-changes",
    "/kafka-acl-extended", "/kafka-acl-extended-changes", "/migration", "/feature",
}  # fmt: skip


def test_the_tops_are_those_of_3_9() -> None:
    assert set(SECURE_ROOTS) == _OF_3_9


def test_nothing_is_made_empty_that_is_read_as_filled() -> None:
    assert set(FILLED_ROOTS) == {"/controller", "/controller_epoch", "/feature", "/migration"}
    assert set(CREATED_ROOTS) == _OF_3_9 - set(FILLED_ROOTS) | {"/kafka-acl-extended/prefixed"}
    assert CREATED_ROOTS.index("/kafka-acl-extended") < CREATED_ROOTS.index("/kafka-acl-extended/prefixed")


def test_a_parent_stands_before_its_children() -> None:
    seen = {"/"}
    for kind in ZNODES:
        assert parent(kind.pattern) in seen
        seen.add(kind.pattern)


@pytest.mark.parametrize("kind", ZNODES, ids=lambda kind: kind.pattern)
def test_every_row_is_found_by_a_path_of_its_kind(kind: ZnodeKind) -> None:
    path = kind.pattern.replace("<", "").replace(">", "")
    assert kind_of(path) is kind
    assert is_covered(path) is kind.covered
    assert is_secret(path) is kind.secret


@pytest.mark.parametrize("path", ["/", "/zookeeper", "/admin/none", "/brokers/topics/t/partitions/0/state/x", ""])
def test_other_paths_have_no_row(path: str) -> None:
    assert kind_of(path) is None


def test_what_is_below_a_top_is_covered_known_or_not() -> None:
    assert is_covered("/")
    assert is_covered("/admin/of/a/later/release")
    assert not is_covered("/administration")
    assert not is_covered("/consumers/group/offsets")
    assert not is_covered("/zookeeper/quota")


def test_secrets_are_known_by_how_their_path_begins() -> None:
    assert is_secret("/config/users/alice/clients/c")
    assert is_secret("/config/users2")  # Kafka's own way, and on the safe side
    assert not is_secret("/config/topics/users")
    assert not is_secret("/delegation_token/token_changes")


def test_children_and_parents() -> None:
    assert child("/", "admin") == "/admin"
    assert child("/admin", "delete_topics") == "/admin/delete_topics"
    assert parent("/admin/delete_topics") == "/admin"
    assert parent("/admin") == parent("/") == "/"
