"""What is asked of ZooKeeper, against a real one: data, lists, ACLs, transactions, watches, below a chroot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from barnabas.core.zookeeper.errors import (
    BadVersionError,
    ClosedError,
    ConnectionLossError,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RequestRefusedError,
    ZooKeeperError,
)
from barnabas.core.zookeeper.values import (
    CREATOR_ALL,
    OPEN_ACLS,
    READABLE,
    Check,
    Create,
    Delete,
    Operation,
    Permission,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZnodeAcl,
    ZnodeId,
)
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.settings import ZooKeeperSettings
from barnabas.testing.ports import free_ports
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.peer


@pytest.fixture
async def zk(zookeeper: ZooKeeper, chroot: str) -> AsyncIterator[ZooKeeperClient]:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as client:
        await client.make_chroot(OPEN_ACLS)
        yield client


async def test_data_is_written_by_version(zk: ZooKeeperClient) -> None:
    assert await zk.exists("/a") is None
    assert await zk.create("/a", b"one", OPEN_ACLS) == "/a"
    data, stat = await zk.get("/a")
    assert (data, stat.version, stat.data_bytes, stat.ephemeral_owner) == (b"one", 0, 3, 0)
    assert (await zk.set("/a", b"two", 0)).version == 1
    with pytest.raises(BadVersionError, match=r"^/a: changed meanwhile"):
        await zk.set("/a", b"three", 0)
    with pytest.raises(BadVersionError):
        await zk.delete("/a", 0)
    assert await zk.exists("/a") == (await zk.get("/a"))[1]
    await zk.delete("/a", 1)
    with pytest.raises(NoNodeError, match=r"^/a: no such znode"):
        await zk.get("/a")


async def test_no_data_and_empty_data_read_the_same(zk: ZooKeeperClient) -> None:
    await zk.create("/none", None, OPEN_ACLS)
    await zk.create("/empty", b"", OPEN_ACLS)
    assert (await zk.get("/none"))[0] == (await zk.get("/empty"))[0] == b""


async def test_children_and_what_their_parents_refuse(zk: ZooKeeperClient) -> None:
    await zk.create("/p", b"", OPEN_ACLS)
    await zk.create("/p/one", b"", OPEN_ACLS)
    assert await zk.create("/p/n-", b"", OPEN_ACLS, sequential=True) == "/p/n-0000000001"
    assert sorted(await zk.children("/p")) == ["n-0000000001", "one"]
    with pytest.raises(NotEmptyError):
        await zk.delete("/p")
    with pytest.raises(NodeExistsError):
        await zk.create("/p", b"", OPEN_ACLS)
    with pytest.raises(NoNodeError):
        await zk.create("/nobody/child", b"", OPEN_ACLS)
    await zk.create("/e", b"", OPEN_ACLS, ephemeral=True)
    with pytest.raises(NoChildrenForEphemeralsError):
        await zk.create("/e/child", b"", OPEN_ACLS)


async def test_an_ephemeral_znode_ends_with_its_client(zookeeper: ZooKeeper, zk: ZooKeeperClient) -> None:
    gone: asyncio.Future[WatchEvent] = asyncio.get_running_loop().create_future()
    async with ZooKeeperClient(zk.settings) as other:
        await other.create("/mine", b"", OPEN_ACLS, ephemeral=True)
        stat = await zk.exists("/mine", watch=gone.set_result)
        assert stat is not None
        assert stat.ephemeral_owner == other.session_id != zk.session_id
    assert await asyncio.wait_for(gone, 60) == WatchEvent(WatchKind.DELETED, "/mine")
    assert await zk.exists("/mine") is None


async def test_acls_are_kept_in_order(zk: ZooKeeperClient) -> None:
    await zk.create("/a", b"", (CREATOR_ALL, READABLE))
    acls, stat = await zk.acls("/a")
    assert list(map(str, acls)) == ["sasl:kafka:cdrwa", "world:anyone:r"]
    assert [acl.who for acl in acls] == [ZnodeId("sasl", "kafka"), ZnodeId("world", "anyone")]
    more = (*acls, ZnodeAcl(Permission.READ | Permission.CREATE, "sasl", "other"))
    assert (await zk.set_acls("/a", more, stat.acl_version)).acl_version == 1
    assert (await zk.acls("/a"))[0] == more
    with pytest.raises(BadVersionError):
        await zk.set_acls("/a", OPEN_ACLS, 0)
    with pytest.raises(InvalidAclError, match=r"^/a: "):
        await zk.set_acls("/a", ())


async def test_many_are_answered_in_their_order_each_for_itself(zk: ZooKeeperClient) -> None:
    mine = (CREATOR_ALL, READABLE)
    for path, acls in (("/parent", OPEN_ACLS), ("/parent/child", mine), ("/closed", (READABLE,))):
        await zk.create(path, None, acls)
    open_one, none, closed = await zk.acls_of(["/parent", "/none", "/closed"])
    assert open_one == await zk.acls("/parent")
    assert isinstance(none, NoNodeError)
    assert none.path == "/none"
    assert closed == await zk.acls("/closed")
    assert await zk.children_of(["/parent", "/parent/child"]) == [["child"], []]
    wanted = [("/parent", mine), ("/none", mine), ("/closed", mine), ("/parent/child", OPEN_ACLS)]
    changed, missing, refused, opened = await zk.set_acls_of(wanted)
    assert changed == await zk.exists("/parent")
    assert opened == await zk.exists("/parent/child")
    assert isinstance(missing, NoNodeError)
    assert isinstance(refused, NoAuthError)
    assert list(map(str, (await zk.acls("/parent"))[0])) == ["sasl:kafka:cdrwa", "world:anyone:r"]
    assert await zk.acls_of([]) == []


async def test_nobody_may_only_what_is_open(zookeeper: ZooKeeper, zk: ZooKeeperClient) -> None:
    await zk.create("/a", b"x", (CREATOR_ALL, READABLE))
    await zk.create("/secret", b"x", (CREATOR_ALL,))
    async with ZooKeeperClient(zookeeper.settings(None, zk.settings.chroot)) as nobody:
        assert await nobody.authenticated_id() is None
        assert (await nobody.get("/a"))[0] == b"x"
        for refused in (
            nobody.set("/a", b"y"), nobody.create("/a/b", b"", OPEN_ACLS), nobody.set_acls("/a", OPEN_ACLS),
            nobody.get("/secret"), nobody.children("/secret"), nobody.acls("/secret"),
        ):  # fmt: skip
            with pytest.raises(NoAuthError, match="its ACL does not allow this"):
                await refused
        with pytest.raises(InvalidAclError, match="needs a session that has logged in"):
            await nobody.create("/b", b"", (CREATOR_ALL,))


async def test_a_transaction_is_done_whole_or_not_at_all(zk: ZooKeeperClient) -> None:
    made, changed, checked, removed = await zk.multi(
        [Create("/m", b"1", OPEN_ACLS), SetData("/m", b"2", 0), Check("/m", 1), Delete("/m", 1)]
    )
    assert (made, checked, removed) == ("/m", None, None)
    assert isinstance(changed, Stat)
    assert changed.version == 1
    refused: list[tuple[list[Operation], type[ZooKeeperError]]] = [
        ([Create("/m", b"", OPEN_ACLS), Delete("/none"), Delete("/m")], NoNodeError),
        ([Create("/m", b"", OPEN_ACLS), Create("/m", b"", OPEN_ACLS)], NodeExistsError),
        ([Create("/m", b"", OPEN_ACLS), Check("/m", 7)], BadVersionError),
    ]
    for operations, error in refused:
        with pytest.raises(error, match=r"^/none: |^/m: "):
            await zk.multi(operations)
        assert await zk.exists("/m") is None
    made, sequential = await zk.multi(
        [Create("/m", b"", OPEN_ACLS), Create("/m/s", b"", OPEN_ACLS, ephemeral=True, sequential=True)]
    )
    assert (made, sequential) == ("/m", "/m/s0000000000")


async def test_watches_come_once_and_before_what_is_read_after_them(zk: ZooKeeperClient) -> None:
    seen: list[tuple[str, WatchEvent]] = []

    def watch(name: str) -> object:
        return lambda event: seen.append((name, event))

    await zk.exists("/w", watch=watch("existence"))  # type: ignore[arg-type]
    await zk.create("/w", b"", OPEN_ACLS)
    await zk.get("/w", watch=watch("data"))  # type: ignore[arg-type]
    await zk.children("/w", watch=watch("children"))  # type: ignore[arg-type]
    await zk.set("/w", b"1")
    await zk.set("/w", b"2")
    await zk.create("/w/c", b"", OPEN_ACLS)
    await zk.delete("/w/c")
    await zk.exists("/w", watch=watch("data again"))  # type: ignore[arg-type]
    await zk.children("/w", watch=watch("children again"))  # type: ignore[arg-type]
    await zk.delete("/w")
    assert seen == [
        ("existence", WatchEvent(WatchKind.CREATED, "/w")),
        ("data", WatchEvent(WatchKind.CHANGED, "/w")),
        ("children", WatchEvent(WatchKind.CHILDREN, "/w")),
        ("data again", WatchEvent(WatchKind.DELETED, "/w")),
        ("children again", WatchEvent(WatchKind.DELETED, "/w")),
    ]


async def test_a_read_that_fails_leaves_no_watch(zk: ZooKeeperClient) -> None:
    seen: list[WatchEvent] = []
    for refused in (zk.get("/w", watch=seen.append), zk.children("/w", watch=seen.append)):
        with pytest.raises(NoNodeError):
            await refused
    await zk.create("/w", b"", OPEN_ACLS)
    await zk.delete("/w")
    assert seen == []


async def test_calls_side_by_side_are_done_in_their_order(zk: ZooKeeperClient) -> None:
    await zk.create("/many", b"", OPEN_ACLS)
    made = await asyncio.gather(
        *(zk.create("/many/", str(n).encode(), OPEN_ACLS, sequential=True) for n in range(2000))
    )
    assert made == [f"/many/{n:010}" for n in range(2000)]
    read = await asyncio.gather(*map(zk.get, made))
    assert [data for data, _ in read] == [str(n).encode() for n in range(2000)]


async def test_paths_are_below_the_chroot(zookeeper: ZooKeeper, zk: ZooKeeperClient, chroot: str) -> None:
    deep = ZooKeeperClient(zookeeper.settings(chroot=f"{chroot}/deep/er"))
    async with deep, ZooKeeperClient(zookeeper.settings()) as whole:
        with pytest.raises(NoNodeError, match=r"^/a: "):
            await deep.create("/a", b"", OPEN_ACLS)
        await deep.make_chroot((CREATOR_ALL, READABLE))
        await deep.make_chroot((CREATOR_ALL, READABLE))
        await deep.create("/a", b"", OPEN_ACLS)
        assert await deep.children("/") == ["a"]
        assert await zk.children("/deep/er") == ["a"]
        assert chroot[1:] in await whole.children("/")
        strict = (ZnodeAcl(Permission.ALL, "sasl", "kafka"), READABLE)
        assert [(await zk.acls(path))[0] for path in ("/", "/deep", "/deep/er")] == [OPEN_ACLS, strict, strict]


async def test_an_answer_that_is_too_large_ends_in_an_error(zk: ZooKeeperClient) -> None:
    with pytest.raises(ConnectionLossError, match=r"^/big: "):
        await zk.create("/big", bytes(2 << 20), OPEN_ACLS)  # more than the server takes: it hangs up
    assert await zk.exists("/big") is None


async def test_what_has_no_class_of_its_own_is_told_by_number(zk: ZooKeeperClient) -> None:
    with pytest.raises(RequestRefusedError, match="error -8"):
        await zk.create("/.", b"", OPEN_ACLS)


async def test_a_closed_client_says_so(zookeeper: ZooKeeper) -> None:
    client = ZooKeeperClient(zookeeper.settings())
    async with client:
        pass
    await client.close()
    with pytest.raises(ClosedError):
        await client.get("/")


async def test_a_start_without_a_server_names_where_it_looked() -> None:
    (port,) = free_ports(1)
    settings = ZooKeeperSettings((("127.0.0.1", port),), connection_timeout_ms=200)
    with pytest.raises(ConnectionLossError, match=f"no connection to ZooKeeper at 127.0.0.1:{port} within 200 ms"):
        await ZooKeeperClient(settings).start()


def test_errors_are_of_one_family() -> None:
    assert issubclass(NoNodeError, ZooKeeperError)
    assert str(NoNodeError("/a")) == "/a: no such znode"
