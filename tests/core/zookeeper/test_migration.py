"""What to change, decided from what was found; and the way back, from an undo file's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.zookeeper.migration import (
    Before,
    Change,
    Make,
    Remove,
    SetAcls,
    Target,
    Znode,
    before,
    plan,
    plan_undo,
)
from barnabas.core.zookeeper.migration_checks import (
    LockOut,
    brokers_that_differ,
    is_nobody_elses,
    kafka_trees,
    left_empty,
    lock_outs,
    missing_roots,
    names_host,
    neighbours,
    out_of_reach,
    standing_open,
)
from barnabas.core.zookeeper.migration_undo import UndoFileError, UndoHeader, before_line, header_line, read
from barnabas.core.zookeeper.paths import CREATED_ROOTS, SECURE_ROOTS
from barnabas.core.zookeeper.security import ZnodeAcls, acls_for
from barnabas.core.zookeeper.values import OPEN_ACLS, Permission, Stat, ZnodeAcl, ZnodeId

KAFKA = ZnodeId("sasl", "kafka")
OTHER = ZnodeId("sasl", "kafka/two.example@EXAMPLE")
SECURE = Target(secure=True, owners=(KAFKA,))
OPEN = Target(secure=False)


def znode(path: str, acls: ZnodeAcls = OPEN_ACLS, *, data: int = 1, children: int = 0, owner: int = 0) -> Znode:
    """Give one that was found, with this many bytes of data; version 7."""
    return Znode(path, acls, Stat(1, 1, 0, 0, 7, 0, 0, owner, data, children, 1))


def strict(path: str, *owners: ZnodeId) -> ZnodeAcls:
    """Give the ACL of a secured path."""
    return acls_for(path, secure=True, owners=owners or (KAFKA,))


TREE = [znode("/"), *(znode(path) for path in (*SECURE_ROOTS, "/kafka-acl-extended/prefixed", "/brokers/topics/t"))]


def test_securing_changes_what_differs_and_nothing_else() -> None:
    mixed = [*TREE, znode("/config/users", strict("/config/users")), znode("/config/brokers")]
    changes = plan(mixed, SECURE)
    assert {change.path for change in changes} == {one.path for one in mixed} - {"/config/users"}
    assert SetAcls("/config/brokers", OPEN_ACLS, strict("/config/brokers")) in changes
    assert SetAcls("/", OPEN_ACLS, strict("/")) in changes


@pytest.mark.parametrize("target", [SECURE, OPEN])
def test_a_second_run_finds_nothing(target: Target) -> None:
    assert plan([znode(one.path, target.acls(one.path)) for one in TREE], target) == []


def test_what_brokers_make_empty_is_made_where_it_is_missing_and_nothing_else() -> None:
    assert plan([znode("/", strict("/"))], SECURE) == [Make(path, strict(path)) for path in CREATED_ROOTS]


@pytest.mark.parametrize("path", ["/controller", "/controller_epoch", "/feature", "/migration"])
@pytest.mark.parametrize("target", [SECURE, OPEN])
def test_what_somebody_left_empty_is_removed(path: str, target: Target) -> None:
    tree = [znode(one.path, target.acls(one.path), data=int(one.path != path)) for one in TREE]
    assert left_empty(tree) == [path]
    assert plan(tree, target) == [Remove(path, target.acls(path), 7)]


def test_an_ephemeral_controller_is_left_where_it_is() -> None:
    assert not left_empty([znode("/controller", data=0, owner=5)])


def test_a_lock_out_is_seen_before_it_happens() -> None:
    theirs = [znode(path, strict(path, OTHER)) for path in ("/brokers/ids/2", "/controller")]
    changes = plan([*TREE, *theirs], SECURE)
    assert lock_outs(changes, SECURE) == [LockOut(OTHER, "/controller", 2)]
    both = Target(secure=True, owners=(KAFKA, OTHER))
    assert lock_outs(plan([*TREE, *theirs], both), both) == []
    assert lock_outs(plan([*TREE, *theirs], OPEN), OPEN) == []


def test_the_super_user_alone_owns_nothing_a_broker_could_change() -> None:
    god = ZnodeId("sasl", "super")
    assert is_nobody_elses(Target(secure=True, owners=(god,)))
    assert not is_nobody_elses(Target(secure=True, owners=(god, KAFKA)))
    assert not is_nobody_elses(Target(secure=False, owners=(god,)))


def test_kerberos_names_with_hosts() -> None:
    assert names_host(OTHER)
    assert names_host(ZnodeId("sasl", "kafka@EXAMPLE"))
    assert not names_host(KAFKA)
    assert not names_host(ZnodeId("x509", "CN=a/b"))


def test_what_is_out_of_reach_is_known_before() -> None:
    changes = plan([*TREE, znode("/brokers/seqid", strict("/brokers/seqid", OTHER))], SECURE)
    assert out_of_reach(changes, [KAFKA]) == ["/brokers/seqid"]
    assert out_of_reach(changes, [KAFKA, OTHER]) == []


def test_reports() -> None:
    tree = [
        znode("/", strict("/")),
        znode("/brokers/ids/1", owner=1),
        znode("/brokers/ids/2", strict("/brokers/ids/2"), owner=2),
        znode("/consumers"),
    ]
    assert standing_open(tree) == ["/brokers/ids/1"]
    assert brokers_that_differ(tree, secure=True) == ["1"]
    assert brokers_that_differ(tree, secure=False) == ["2"]
    assert missing_roots(TREE[:3]) == list(SECURE_ROOTS[2:])
    assert neighbours(["zookeeper", "brokers", "consumers", "hbase", "app"]) == ["app", "hbase"]
    assert list(kafka_trees([("/", ["app"]), ("/a", ["brokers", "x"]), ("/b", [])])) == ["/a"]


# The way back.


def carried_out(tree: list[Znode], changes: list[Change]) -> list[Znode]:
    """Give the tree as it is after the changes."""
    by_path = {one.path: one for one in tree}
    for change in changes:
        match change:
            case SetAcls():
                old = by_path[change.path]
                by_path[change.path] = Znode(old.path, change.after, old.stat)
            case Make():
                by_path[change.path] = znode(change.path, change.after, data=0)
            case Remove():
                del by_path[change.path]
    return list(by_path.values())


PATHS = st.sampled_from([one.path for one in TREE] + ["/config/users", "/config/users/u", "/brokers/ids/1"])
ACLS = st.sampled_from([OPEN_ACLS, strict("/"), strict("/config/users"), strict("/", OTHER)])


@given(st.dictionaries(PATHS, ACLS), st.booleans())
def test_undoing_gives_what_was_there(acls: dict[str, ZnodeAcls], secure: bool) -> None:
    tree = [znode(path, one) for path, one in ({"/": OPEN_ACLS} | acls).items()]
    target = SECURE if secure else OPEN
    changes = plan(tree, target)
    kept = {change.path: before(change) for change in changes}
    after = carried_out(tree, changes)
    assert plan(after, target) == []
    assert {one.path: one.acls for one in carried_out(after, plan_undo(kept, after))} == {
        one.path: one.acls for one in tree
    }


def test_a_made_znode_in_use_stays_and_gets_what_its_parent_had() -> None:
    kept = {
        "/": Before("/", OPEN_ACLS),
        "/kafka-acl-extended": Before("/kafka-acl-extended", None),
        "/kafka-acl-extended/prefixed": Before("/kafka-acl-extended/prefixed", None),
    }
    after = [
        znode("/", strict("/"), children=1),
        znode("/kafka-acl-extended", strict("/x"), data=0, children=1),
        znode("/kafka-acl-extended/prefixed", strict("/x"), data=0, children=1),  # a child of somebody's
    ]
    assert plan_undo(kept, after) == [
        SetAcls("/", strict("/"), OPEN_ACLS),
        SetAcls("/kafka-acl-extended/prefixed", strict("/x"), OPEN_ACLS),
        Remove("/kafka-acl-extended", strict("/x"), 7),
    ]


def test_what_is_gone_stays_gone() -> None:
    assert plan_undo({"/brokers/topics/t": Before("/brokers/topics/t", OPEN_ACLS)}, []) == []


HEADER = UndoHeader("/kafka", "id", secure=True)
ENTRIES = [
    Before("/", OPEN_ACLS),
    Before(
        "/config/topics/tön \n", (ZnodeAcl(Permission.ALL, "x509", "CN=a, O=b"), ZnodeAcl(Permission.READ, "a", ""))
    ),
    Before("/admin", None),
]


def test_an_undo_file_says_what_was_put_in() -> None:
    text = header_line(HEADER) + "".join(map(before_line, ENTRIES))
    assert read(text) == (HEADER, {one.path: one for one in ENTRIES})


def test_the_first_line_of_a_path_counts() -> None:
    text = header_line(HEADER) + before_line(Before("/", OPEN_ACLS)) + before_line(Before("/", strict("/")))
    assert read(text)[1] == {"/": Before("/", OPEN_ACLS)}


@pytest.mark.parametrize(
    "text", ["", "{}\n", "hello\n", "[1]\n", '{"undo":2,"chroot":"","cluster":"","zookeeper.acl":"secure"}\n']
)
def test_other_files_are_none(text: str) -> None:
    with pytest.raises(UndoFileError):
        read(text)
