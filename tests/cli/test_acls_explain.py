"""`barnabas acls explain` and `acls lint` on a metadata log that is written here, byte by byte, and on bad flags."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.metadata.acls import acl_record
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.uuid import Uuid
from barnabas.wire.metadata_records import encode_metadata_record
from barnabas.wire.record_batch import Record, encode_batch
from barnabas.wire.records.abort_transaction_record import AbortTransactionRecord
from barnabas.wire.records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.user_scram_credential_record import UserScramCredentialRecord
from tests.cli.conftest import Barnabas, Run

READ, ALL = AclOperation.READ, AclOperation.ALL
ASK = ("acls", "explain", "--principal", "User:alice", "--host", "10.0.0.7", "--operation", "read", "--topic", "orders")


def acl(
    name: str = "orders",
    operation: AclOperation = READ,
    *,
    principal: str = "User:alice",
    deny: bool = False,
    prefixed: bool = False,
    host: str = "*",
) -> AclBinding:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    pattern = ResourcePattern(ResourceType.TOPIC, name, pattern_type)
    return AclBinding(pattern, principal, host, operation, permission)


def acl_id(number: int) -> Uuid:
    return Uuid(bytes([5]) * 15 + bytes([number]))


def adding(*rules: AclBinding) -> list[Any]:
    return [acl_record(acl_id(number), rule).record for number, rule in enumerate(rules)]


def write(path: Path, records: Iterable[Any], base_offset: int = 0) -> Path:
    """Write a segment, or a snapshot, of these records."""
    values = (encode_metadata_record(record, 0) for record in records)
    batch = [Record(base_offset + n, 0, None, value) for n, value in enumerate(values)]
    path.write_bytes(encode_batch(batch, base_offset=base_offset, leader_epoch=1))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Give a metadata log with three rules on orders."""
    rules = acl(), acl("ord", ALL, principal="User:*", deny=True, prefixed=True), acl(principal="User:bob")
    return write(tmp_path / f"{0:020d}.log", adding(*rules))


def changed(asked: Run) -> list[str]:
    return [command for change in asked.json["changes"] for command in change["commands"]]


def test_an_answer_has_its_rule_with_id_and_offset(barnabas: Barnabas, log: Path) -> None:
    told = barnabas(*ASK, "--metadata", str(log))
    assert told.code == 0, told.err
    first = told.out.splitlines()[0]
    assert first == (
        "DENIED: User:alice may not Read TOPIC orders from 10.0.0.7: refused by DENY User:* All TOPIC ord (prefix) "
        f"from * (id {acl_id(1)}, metadata offset 1); All stands for every operation."
    )
    assert [line.split()[-1] for line in told.out.splitlines() if line.lstrip()[:2] in ("1 ", "2 ", "3 ")] == [
        "grants",
        "principal",
        "DECIDES",
    ]
    assert (
        "barnabas acls --remove --deny-principal 'User:*' --deny-host '*' --operation All --topic ord "
        "--resource-pattern-type prefixed\n  Tried on these rules: the answer is then ALLOWED"
    ) in told.out
    assert "Take care" in told.out
    assert "super.users is not told by this source" in told.out


@pytest.mark.slow
def test_programs_get_all_of_it(barnabas: Barnabas, log: Path) -> None:
    told = barnabas(*ASK, "--metadata", str(log), "--output", "json").json
    assert (told["allowed"], told["decided_by"]) == (False, "ACL")
    assert (told["rule"]["id"], told["rule"]["metadata_offset"], told["rule"]["by_snapshot"]) == (
        str(acl_id(1)),
        1,
        False,
    )
    assert [(c["id"], c["effect"], c["decides"]) for c in told["considered"]] == [
        (str(acl_id(0)), "grants", False),
        (str(acl_id(2)), "other principal", False),
        (str(acl_id(1)), "refuses", True),
    ]
    (change,) = told["changes"]
    assert (change["allowed_then"], change["add"], len(change["remove"])) == (True, None, 1)


@pytest.mark.slow
def test_super_users_and_the_default_come_from_flags_or_a_file(barnabas: Barnabas, log: Path, tmp_path: Path) -> None:
    flagged = barnabas(*ASK, "--metadata", str(log), "--super-users", "User:alice;User:root", "--output", "json").json
    assert (flagged["allowed"], flagged["decided_by"]) == (True, "SuperUser")
    assert flagged["changes"][0]["no_longer_super_user"] == "User:alice"
    file = tmp_path / "server.properties"
    file.write_text("super.users=User:root\nallow.everyone.if.no.acl.found=true\n")
    ask = [*ASK[:-1], "free"]
    told = barnabas(*ask, "--metadata", str(log), "--server-properties", str(file), "--output", "json").json
    assert (told["allowed"], told["decided_by"]) == (True, "DefaultAllow")
    assert told["settings"]["super.users"] == ["User:root"]
    assert told["changes"][0]["ends_default"]
    assert any("has no authorizer.class.name" in note for note in told["settings"]["notes"])
    no_one = barnabas(*ask, "--metadata", str(log), "--server-properties", str(file), "--deny-everyone-if-no-acl-found")
    assert "no rule covers it, and without one nobody may" in no_one.out
    assert "super.users=a: 'a' is not a principal" in barnabas(*ASK, "--metadata", str(log), "--super-users", "a").err


@pytest.mark.slow
def test_removed_rules_and_what_was_called_off_do_not_count(barnabas: Barnabas, tmp_path: Path) -> None:
    records = [
        *adding(acl()),
        RemoveAccessControlEntryRecord(id=acl_id(0)),
        acl_record(acl_id(7), acl(host="10.0.0.7")).record,
        BeginTransactionRecord(name="x"),
        acl_record(acl_id(8), acl(deny=True)).record,
        AbortTransactionRecord(),
    ]
    log = write(tmp_path / f"{0:020d}.log", records)
    told = barnabas(*ASK, "--metadata", str(log), "--output", "json").json
    assert [(c["id"], c["metadata_offset"]) for c in told["considered"]] == [(str(acl_id(7)), 2)]
    log.write_bytes(write(tmp_path / "x", records[:-1]).read_bytes())
    assert len(barnabas(*ASK, "--metadata", str(log), "--output", "json").json["considered"]) == 1


@pytest.mark.slow
def test_a_snapshot_names_itself_and_the_log_before_it_tells_more(barnabas: Barnabas, tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    write(folder / f"{0:020d}.log", adding(acl(), acl("other")))
    segment = write(folder / f"{2:020d}.log", [acl_record(acl_id(9), acl("*", ALL)).record], base_offset=2)
    snapshot = write(folder / f"{2:020d}-{1:010d}.checkpoint", adding(acl(), acl("other")))

    def offsets(path: Path) -> list[tuple[int, bool]]:
        considered = barnabas(*ASK, "--metadata", str(path), "--output", "json").json["considered"]
        return [(c["metadata_offset"], c["by_snapshot"]) for c in considered]

    assert offsets(snapshot) == [(2, True)]
    assert "metadata offset snapshot 2)" in barnabas(*ASK, "--metadata", str(snapshot)).out
    assert offsets(tmp_path) == [(0, False), (2, False)]
    assert offsets(folder) == [(0, False), (2, False)]
    (folder / f"{0:020d}.log").unlink()
    assert offsets(tmp_path) == [(2, True), (2, False)]
    assert "2 rules came by a snapshot" in barnabas(*ASK, "--metadata", str(tmp_path)).out
    alone = barnabas(*ASK, "--metadata", str(segment))
    assert "begins at offset 2: rules that were made before it are missing" in alone.out


@pytest.mark.slow
def test_many_rules_of_others_are_counted(barnabas: Barnabas, tmp_path: Path) -> None:
    rules = [acl(principal=f"User:u{n}") for n in range(30)] + [acl()]
    log = write(tmp_path / f"{0:020d}.log", adding(*rules))
    told = barnabas(*ASK, "--metadata", str(log)).out
    assert "30 more rules cover it and name other principals" in told
    assert "User:u7" not in told
    assert "User:u7 " in barnabas(*ASK, "--metadata", str(log), "--all").out


@pytest.mark.parametrize(
    ("instead", "told"),
    [
        (("--host", "web1"), "never looks a host name up"),
        (("--principal", "alice"), "Type:name"),
        (("--operation", "all"), "ask for one of them"),
        (("--operation", "fly"), "want one of"),
        (("--operation", "cluster-action"), "cannot be done to a TOPIC"),
        (("--group", "g"), "Name one resource"),
        (("--bootstrap-server", "localhost:1"), "one of them"),
        (("--metadata", "/nowhere"), "Cannot read /nowhere"),
    ],
)
@pytest.mark.slow
def test_questions_that_make_no_sense(barnabas: Barnabas, log: Path, instead: tuple[str, ...], told: str) -> None:
    asked = barnabas(*ASK, "--metadata", str(log), *instead)
    assert (asked.code, told in asked.err) == (1, True), asked.err


@pytest.mark.slow
def test_what_is_no_metadata_is_not_taken_for_no_rules(barnabas: Barnabas, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("a=b\n" * 40)
    assert "no metadata record in it" in barnabas(*ASK, "--metadata", str(file)).err
    assert "There is no metadata log" in barnabas(*ASK, "--metadata", str(tmp_path)).err
    assert "Say where the rules are" in barnabas(*ASK).err


@pytest.mark.slow
def test_names_where_apache_kafka_decides_otherwise_are_pointed_out(barnabas: Barnabas, log: Path) -> None:
    ask = [*ASK[:-2], "--group", "#1"]
    assert "Apache Kafka 4.3 may answer otherwise" in barnabas(*ask, "--metadata", str(log)).out
    assert "Apache Kafka" not in barnabas(*ASK, "--metadata", str(log)).out


def test_nothing_wrong_is_code_0_and_findings_are_code_1(barnabas: Barnabas, tmp_path: Path) -> None:
    clean = write(tmp_path / "clean.log", adding(acl()))
    good = barnabas("acls", "lint", "--metadata", str(clean))
    assert (good.code, good.out) == (0, "Nothing to find fault with in 1 rules.\n")
    users = [UserScramCredentialRecord(name="alice", mechanism=2, iterations=4096)]
    bad = write(tmp_path / "bad.log", [*users, *adding(acl(principal="User:Alice"), acl("ord*"), acl("*", ALL))])
    audit = tmp_path / "authorizer.log"
    audit.write_text(
        "noise\n[x] Principal = User:BOB is Denied operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny\n"
    )
    flags = ("acls", "lint", "--metadata", str(bad), "--seen-principal", "User:carol", "--audit-log", str(audit))
    shown = barnabas(*flags)
    assert shown.code == 1
    assert shown.out.splitlines()[0] == "3 findings in 3 rules; 1 of them can go without changing any answer."
    assert "User:alice is how it stands in the SCRAM users" in shown.out
    told = barnabas(*flags, "--output", "json")
    assert told.code == 1
    assert '"finding": "implied"' in told.out


@pytest.mark.slow
def test_what_cannot_be_looked_for_is_told_apart_from_what_is_found(
    barnabas: Barnabas, log: Path, tmp_path: Path
) -> None:
    flags = ("acls", "lint", "--metadata", str(log))
    assert barnabas(*flags).code == 1
    for words, why in (
        ((*flags, "--audit-log", str(log)), "no line of kafka.authorizer.logger"),
        ((*flags, "--audit-log", str(tmp_path / "none")), "Cannot read"),
        (("acls", "lint", "--metadata", str(tmp_path / "none")), "none"),
        (("acls", "lint", "--bootstrap-server", "127.0.0.1:1"), "127.0.0.1:1"),
        (("acls", "lint"), "Say where the rules are"),
        (("acls", "lint", "--metadata", str(log), "--super-users", "nobody"), "nobody"),
        ((*flags, "--seen-principal", "nobody"), "not a principal"),
        (("acls", "lint", "--no-such-flag"), "no-such-flag"),
    ):
        failed = barnabas(*words)
        assert (failed.code, why in failed.err) == (2, True), failed
    helped = " ".join(barnabas("acls", "lint", "--help").out.split())
    assert "Exit codes: 0 nothing was found, 1 something was, 2 it could not be looked for." in helped


@pytest.mark.slow
def test_any_topic_at_all(barnabas: Barnabas, tmp_path: Path) -> None:
    write_, ask = AclOperation.WRITE, [*ASK[:-4], "--operation", "write", "--any-topic"]
    rules = (
        acl("orders", write_),
        acl("ord", ALL, principal="User:*", deny=True, prefixed=True),
        acl(principal="User:bob"),
    )
    source = ("--metadata", str(write(tmp_path / f"{0:020d}.log", adding(*rules))))
    told = barnabas(*ask, *source)
    assert told.code == 0, told.err
    first = "DENIED: User:alice may Write no TOPIC at all from 10.0.0.7: whatever is granted is refused as a whole."
    assert told.out.splitlines()[0] == first
    assert "grants, and is refused as a whole by ord (prefix)" in told.out
    assert "NAME stands for a name of yours" in told.out
    facts = barnabas(*ask, *source, "--output", "json").json
    assert (facts["allowed"], facts["decided_by"], facts["rule"]) == (False, "DefaultDeny", None)
    assert [(c["name"], c["effect"], c["id"]) for c in facts["considered"]] == [
        ("ord", "refuses a part", str(acl_id(1))),
        ("orders", "grants, and is refused as a whole", str(acl_id(0))),
    ]
    assert facts["considered"][1]["refused_by"][0]["name"] == "ord"
    assert [change["allowed_then"] for change in facts["changes"]] == [True, True]
    more = ("--metadata", str(write(tmp_path / "more.log", adding(*rules, acl("logs", write_)))))
    granted = barnabas(*ask, *more).out
    assert granted.startswith(
        f"ALLOWED: User:alice may Write some TOPIC from 10.0.0.7: granted by ALLOW User:alice Write TOPIC logs from * "
        f"(id {acl_id(3)}, metadata offset 3)."
    )
    assert "--deny-host 10.0.0.7 --operation Write --topic '*'" in granted
    root = barnabas(*ask, *source, "--super-users", "User:alice")
    assert "a super user passes" in root.out
    assert "take User:alice out of super.users" in root.out
    everybody = barnabas(*ask, "--metadata", str(write(tmp_path / "none.log", adding(acl("x", principal="User:b")))),
                         "--allow-everyone-if-no-acl-found")  # fmt: skip
    assert everybody.out.startswith("ALLOWED"), everybody
    assert "Name one resource" in barnabas(*ask, "--topic", "t", *source).err


@pytest.mark.slow
def test_the_old_flags_of_the_tool_still_go_with_it(barnabas: Barnabas) -> None:
    assert "exactly one of --list, --add or --remove" in barnabas("acls").err
    assert "Say where the cluster is" in barnabas("acls", "--list").err
