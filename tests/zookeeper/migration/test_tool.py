"""The tool's command line, what it reports, and what it refuses, against a real ZooKeeper with trees made by hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.core.zookeeper.errors import NoAuthError
from barnabas.core.zookeeper.paths import CREATED_ROOTS, is_secret
from barnabas.core.zookeeper.values import CREATOR_ALL, OPEN_ACLS, READABLE, Permission, ZnodeAcl
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.migration.conftest import COMMAND, Migration
from tests.zookeeper.migration.trees import acls_of, ask, plant

pytestmark = pytest.mark.peer

OPEN = "world:anyone:cdrwa"
STRICT = "sasl:kafka:cdrwa, world:anyone:r"
SECRET = "sasl:kafka:cdrwa"
SECURE = "--zookeeper.acl=secure"
UNSECURE = "--zookeeper.acl=unsecure"


def wanted(path: str) -> str:
    """Give the ACL that a secured path has."""
    return OPEN if path == "/consumers" else SECRET if is_secret(path) else STRICT


@pytest.mark.requirement("Z-12", "Z-14", "Z-27", "H-32")
def test_securing_and_opening_reach_every_covered_znode(zookeeper: ZooKeeper, migration: Migration, tree: str) -> None:
    before = acls_of(zookeeper, tree)
    run = migration(tree, SECURE)
    assert run.code == 0, run.err
    after = acls_of(zookeeper, tree)
    assert after == {path: wanted(path) for path in after}
    assert after.keys() == before.keys() | set(CREATED_ROOTS)  # no /controller, which would stop an election
    assert migration(tree, SECURE).out == "Nothing to do: all is so already.\n"
    assert migration(tree, UNSECURE).code == 0
    assert set(acls_of(zookeeper, tree).values()) == {OPEN}


NOT_UNDERSTOOD: tuple[list[str], ...] = (
    [],
    ["--zookeeper.acl"],
    ["--zookeeper.acl=open"],
    ["--zookeeper.acl", "Secure"],
    ["--zookeeper.session.timeout=x", SECURE],
    ["--zookeeper.connection.timeout=0", SECURE],
    [SECURE, "--undo", "f"],
    ["--undo", "f", "--enable.path.check"],
    [UNSECURE, "--grant=sasl:a"],
    [SECURE, "--grant=world:anyone"],
    [SECURE, "--grant=kafka"],
)


@pytest.mark.requirement("Z-13")
@pytest.mark.parametrize("words", NOT_UNDERSTOOD, ids=" ".join)
def test_other_words_are_usage_errors(migration: Migration, tree: str, zookeeper: ZooKeeper, words: list[str]) -> None:
    run = migration(tree, *words)
    assert run.code == 2
    assert "Error" in run.err
    assert set(acls_of(zookeeper, tree).values()) == {OPEN}


@pytest.mark.requirement("Z-13")
def test_the_words_of_kafkas_tool_are_understood(
    migration: Migration, tree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tls.properties").write_text("zookeeper.ssl.client.enable=false\nother=ignored\n")
    words = ["--zookeeper.session.timeout", "20000", "--zookeeper.connection.timeout=20000"]
    run = migration(tree, "--zookeeper.acl", "secure", *words, "--zk-tls-config-file", "tls.properties")
    assert run.code == 0, run.err
    monkeypatch.setenv("COLUMNS", "200")
    shown = migration(tree, "--help").out
    for name in ("zookeeper.acl", "zookeeper.connect", "zookeeper.session.timeout", "zookeeper.connection.timeout",
                 "enable.path.check", "zk-tls-config-file"):  # fmt: skip
        assert f"--{name} " in shown
    assert "localhost:2181" in shown
    assert shown.count("30000") == 2


@pytest.mark.requirement("Z-15", "Z-25")
def test_without_a_login_nothing_is_changed(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    run = migration(tree, SECURE, user=None)
    assert run.code == 1
    assert "java.security.auth.login.config" in run.err
    assert "Nothing was changed" in run.err
    assert set(acls_of(zookeeper, tree).values()) == {OPEN}


@pytest.mark.requirement("Z-25", "H-35")
def test_reading_works_without_a_login(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    shown = migration(tree, SECURE, "--dry-run", "--output=json", user=None).json
    assert set(shown["open"]) == acls_of(zookeeper, tree).keys() - {"/consumers"}
    assert migration(tree, SECURE).code == 0
    shown = migration(tree, SECURE, "--dry-run", "--output=json", user=None).json
    assert shown["open"] == shown["changes"] == []
    assert "/config/users" in shown["unreadable"]


@pytest.mark.requirement("Z-15")
@pytest.mark.parametrize("text", ['Client { org.apache.zookeeper.server.auth.DigestLoginModule required '
                                  'username="kafka" password="wrong"; };', "Server {};", "nonsense", None])  # fmt: skip
def test_with_a_login_that_is_no_good_nothing_is_changed(
    migration: Migration, tree: str, zookeeper: ZooKeeper, tmp_path: Path, text: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    jaas = tmp_path / "jaas"
    if text is not None:
        jaas.write_text(text)
    monkeypatch.setattr(ZooKeeper, "client_jaas", lambda *_: jaas)
    run = migration(tree, SECURE, "--zookeeper.connection.timeout=60000")
    assert run.code == 1
    assert "java.security.auth.login.config" in run.err or "JAAS" in run.err
    assert "wrong" not in run.err
    monkeypatch.undo()
    assert set(acls_of(zookeeper, tree).values()) == {OPEN}


@pytest.mark.requirement("Z-13", "H-35")
def test_a_dry_run_shows_and_changes_nothing(
    migration: Migration, tree: str, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    before = acls_of(zookeeper, tree)
    run = migration(tree, SECURE, "--dry-run")
    assert run.code == 0, run.err
    assert f"\n/brokers/seqid\n  - {OPEN}\n  + {STRICT}\n" in run.out
    assert f"\n/config/users\n  - {OPEN}\n  + {SECRET}\n" in run.out
    assert f"\n/kafka-acl\n  + {STRICT}\n" in run.out
    facts = migration(tree, SECURE, "--dry-run", "--output", "json").json
    assert facts["open"] == [change["path"] for change in facts["changes"] if change["action"] == "set"]
    assert facts["cluster"] == "of-the-tests"
    assert facts["authenticated_ids"] == ["sasl:kafka"]
    assert {"path": "/", "action": "set", "before": [OPEN], "after": STRICT.split(", ")} in facts["changes"]
    assert acls_of(zookeeper, tree) == before
    assert not list(tmp_path.glob("*.undo"))


def test_a_dry_run_is_coloured_on_a_terminal(migration: Migration, tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = migration(tree, SECURE, "--dry-run").out
    assert f"\x1b[31m  - {OPEN}\x1b[0m" in shown
    assert f"\x1b[32m  + {STRICT}\x1b[0m" in shown


@pytest.mark.requirement("H-35")
def test_brokers_that_still_make_open_znodes_are_named(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    async def register(zk: ZooKeeperClient) -> None:
        await zk.create("/brokers/ids/1", b"{}", OPEN_ACLS)
        await zk.create("/brokers/ids/2", b"{}", [CREATOR_ALL, READABLE])

    ask(zookeeper, register, tree)
    run = migration(tree, SECURE)
    assert run.code == 0
    assert "Brokers 1 have registered with zookeeper.set.acl=false: what they make stays open" in run.err
    assert "Brokers 1 have" not in migration(tree, SECURE).err  # its znode's ACL is no longer as it made it
    assert "Brokers 2 have registered with zookeeper.set.acl=true" in migration(tree, UNSECURE).err


@pytest.mark.requirement("Z-23")
def test_neighbours_keep_their_acls(migration: Migration, zookeeper: ZooKeeper, chroot: str) -> None:
    for one in ("/a/kafka", "/b/kafka", "/a/other"):
        plant(zookeeper, chroot + one)
    assert migration(chroot + "/a/kafka", SECURE).code == 0
    after = acls_of(zookeeper, chroot)
    strict = {path for path, acl in after.items() if acl != OPEN}
    assert strict
    assert {path for path in strict if not re.match("/a/kafka(/|$)", path)} == set()


@pytest.mark.requirement("Z-24")
def test_without_a_chroot_it_warns_of_those_who_share_the_root(migration: Migration, tmp_path: Path) -> None:
    with ZooKeeper(tmp_path / "zookeeper") as own:
        plant(own, "")
        plant(own, "/hbase")
        run = migration("", SECURE, connect=own.connect)
        assert run.code == 0, run.err
        assert "the ACL of / itself changes" in run.err
        assert "Others live below /: hbase." in run.err
        after = acls_of(own)
        assert after["/"] == STRICT
        assert {acl for path, acl in after.items() if path.startswith(("/hbase", "/consumers"))} == {OPEN}
        assert after["/zookeeper"] == OPEN

        async def settle(zk: ZooKeeperClient) -> None:
            await zk.create("/newcomer", None, OPEN_ACLS)

        with pytest.raises(NoAuthError):
            ask(own, settle, user="other")


@pytest.mark.requirement("H-32")
@pytest.mark.parametrize("flag", [[], ["--enable.path.check"]])
@pytest.mark.parametrize("exists", [True, False])
def test_on_a_wrong_chroot_nothing_is_made(
    migration: Migration, zookeeper: ZooKeeper, tree: str, flag: list[str], exists: bool
) -> None:
    wrong = f"{tree}-wrong"
    if exists:
        ask(zookeeper, lambda zk: zk.make_chroot(OPEN_ACLS), wrong)
    before = acls_of(zookeeper, wrong)
    assert before == ({"/": OPEN} if exists else {})
    run = migration(wrong, SECURE, *flag)
    assert run.code == 1
    assert f"Nothing of Kafka's is at {wrong}: the wrong chroot?" in run.err
    assert "Kafka's trees of this ensemble: " in run.err
    assert acls_of(zookeeper, wrong) == before


@pytest.mark.requirement("H-32", "Z-13")
def test_the_path_check_stops_where_a_root_is_missing(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    before = acls_of(zookeeper, tree)
    run = migration(tree, SECURE, "--enable.path.check")
    assert run.code == 1
    assert "These secure root paths do not exist in ZooKeeper: /delegation_token,/kafka-acl," in run.err
    assert acls_of(zookeeper, tree) == before
    run = migration(tree, SECURE)
    assert run.code == 0
    assert "/delegation_token,/kafka-acl," in run.err  # a warning
    assert migration(tree, SECURE, "--enable.path.check").code == 0


@pytest.mark.requirement("H-32")
@pytest.mark.parametrize("path", ["/controller", "/migration"])
def test_an_empty_znode_that_stops_its_readers_is_removed(
    migration: Migration, tree: str, zookeeper: ZooKeeper, path: str
) -> None:
    ask(zookeeper, lambda zk: zk.create(path, None, OPEN_ACLS), tree)
    shown = migration(tree, SECURE, "--dry-run")
    assert f"\n{path}\n  - {OPEN}\n/" in shown.out
    run = migration(tree, SECURE)
    assert run.code == 0
    assert f"{path} holds nothing, which stops whoever reads it" in run.err
    assert path not in acls_of(zookeeper, tree)


def test_one_that_is_filled_is_secured_and_stays(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    ask(zookeeper, lambda zk: zk.create("/migration", b'{"version":0}', OPEN_ACLS), tree)
    assert migration(tree, SECURE).code == 0
    assert acls_of(zookeeper, tree)["/migration"] == STRICT


@pytest.mark.requirement("Z-28")
def test_a_tool_with_a_name_of_its_own_is_granted_rights(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    async def write(zk: ZooKeeperClient) -> None:
        await zk.set("/brokers/topics/t0", b"{}")

    assert migration(tree, SECURE).code == 0
    with pytest.raises(NoAuthError):
        ask(zookeeper, write, tree, "client")
    refused = migration(tree, UNSECURE, user="client")
    assert refused.code == 1
    assert "sasl:client may not change the ACLs of" in refused.err
    assert "They are of sasl:kafka." in refused.err
    assert migration(tree, SECURE, "--grant", "sasl:client").code == 0
    ask(zookeeper, write, tree, "client")
    assert acls_of(zookeeper, tree)["/config/users"] == "sasl:kafka:cdrwa, sasl:client:cdrwa"
    assert migration(tree, UNSECURE, user="client").code == 0


@pytest.mark.requirement("H-34")
def test_nobody_is_locked_out_unless_it_is_wanted(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    kerberos = "kafka/two.example@EXAMPLE"

    async def owned_by_two(zk: ZooKeeperClient) -> None:
        both = [CREATOR_ALL, ZnodeAcl(Permission.ALL, "sasl", kerberos), READABLE]
        await zk.set_acls("/brokers/topics/t0", both)

    ask(zookeeper, owned_by_two, tree)
    before = acls_of(zookeeper, tree)
    refused = migration(tree, SECURE)
    assert refused.code == 1
    assert f"sasl:{kerberos} would be locked out of 1 znodes that it may change now, /brokers/topics/t0" in refused.err
    assert "removeHostFromPrincipal=true" in refused.err
    assert acls_of(zookeeper, tree) == before
    shown = migration(tree, SECURE, "--dry-run")
    assert "It would not begin: " in shown.err
    assert migration(tree, SECURE, f"--grant=sasl:{kerberos}").code == 0
    assert f"sasl:{kerberos}:cdrwa" in acls_of(zookeeper, tree)["/brokers/topics/t0"]
    assert migration(tree, SECURE, "--revoke-others").code == 0
    assert acls_of(zookeeper, tree)["/brokers/topics/t0"] == STRICT


@pytest.mark.requirement("H-34")
def test_znodes_of_brokers_with_hosts_in_their_names_are_out_of_reach(
    migration: Migration, tree: str, zookeeper: ZooKeeper
) -> None:
    async def owned_by_another(zk: ZooKeeperClient) -> None:
        another = [ZnodeAcl(Permission.ALL, "sasl", "kafka/two.example@EXAMPLE"), READABLE]
        await zk.set_acls("/brokers/topics/t0", another)

    ask(zookeeper, owned_by_another, tree)
    before = acls_of(zookeeper, tree)
    refused = migration(tree, SECURE)
    assert refused.code == 1
    assert "They are of sasl:kafka/two.example@EXAMPLE. ZooKeeper strips both with" in refused.err
    assert acls_of(zookeeper, tree) == before


@pytest.mark.requirement("H-34")
def test_the_super_user_does_not_lock_all_brokers_out(migration: Migration, tree: str, zookeeper: ZooKeeper) -> None:
    refused = migration(tree, SECURE, user="super")
    assert refused.code == 1
    assert "is ZooKeeper's super user" in refused.err
    assert set(acls_of(zookeeper, tree).values()) == {OPEN}
    assert migration(tree, SECURE, "--grant=sasl:kafka", user="super").code == 0
    assert acls_of(zookeeper, tree)["/brokers"] == "sasl:super:cdrwa, sasl:kafka:cdrwa, world:anyone:r"


def test_without_the_libraries_it_says_what_to_install() -> None:
    code = (
        f"import sys; sys.modules['kazoo'] = None; from barnabas.cli.main import main; main(['{COMMAND}', '{SECURE}'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "pip install 'barnabas[zookeeper]'" in done.stderr


def test_json_of_a_run_tells_what_was_done(migration: Migration, tree: str) -> None:
    facts = migration(tree, SECURE, "--output=json").json
    assert facts["dry_run"] is False
    assert facts["vanished"] == []
    assert json.loads(Path(facts["undo_file"]).read_text().split("\n")[0])["cluster"] == "of-the-tests"
