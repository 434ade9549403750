"""ZooKeeper for those who keep something there: one object is one client, who it is, and where it lives.

All calls may be made side by side; they go out at once, and ZooKeeper does them in the order in which they were made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from kazoo.protocol import serialization as wire

from barnabas.core.zookeeper.errors import (
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    ZooKeeperError,
    error_for,
)
from barnabas.core.zookeeper.values import (
    ANY_VERSION,
    Create,
    Operation,
    Result,
    SessionEvent,
    Stat,
    Watch,
    ZnodeAcl,
    ZnodeId,
)
from barnabas.net.zookeeper import requests
from barnabas.net.zookeeper.connection import Accepted, Connection
from barnabas.net.zookeeper.requests import Request, WhoAmI
from barnabas.net.zookeeper.session import Session
from barnabas.net.zookeeper.settings import ZooKeeperSettings
from barnabas.net.zookeeper.watches import Watches

T = TypeVar("T")
OnState = Callable[[SessionEvent], None]
_PROVEN: tuple[str, ...] = ("sasl", "x509", "digest")


class ZooKeeperClient:
    """A session below a chroot. Use as `async with`; paths are absolute, and relative to the chroot.

    Reads are asked again when their connection goes; a change whose answer is lost is a ConnectionLossError, since
    nobody knows whether it was made. Calls without a connection wait for one, for `connection_timeout_ms`. Every
    call may raise a ZooKeeperError, which names the path.
    """

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self.settings = settings
        self._chroot = settings.chroot
        self._listeners: list[OnState] = []
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._watches = Watches(self._relative)

    # The session.

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Get a session and log in; AuthFailedError when refused, ConnectionLossError when nobody answers."""
        self._session = session = Session(self.settings, self._watches, self._tell)
        self._task = asyncio.create_task(session.run(), name="zookeeper session")
        try:
            async with asyncio.timeout(self.settings.connection_timeout_ms / 1000):
                await session.started
        except TimeoutError:
            error = session.why_not_connected()
            await self.close()
            raise error from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session; its ephemeral znodes go. Calls that wait get a ClosedError."""
        if self._task is None or self._session is None:
            return
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait([task])
        await self._session.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def on_state(self, listener: OnState) -> Callable[[], None]:
        """Have a function called, on the loop, when the session's state changes; give what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def session_id(self) -> int:
        """Give the id of the session, as `Stat.ephemeral_owner` has it; 0 before the first and between two."""
        return 0 if self._session is None else self._session.id

    @property
    def login_failure(self) -> str:
        """Give why ZooKeeper serves us as nobody though a login is set; empty when that is not so."""
        return "" if self._session is None else self._session.login_failure

    async def authenticated_id(self) -> ZnodeId | None:
        """Give who we are to ZooKeeper, the id that ACLs of ours get; None for nobody. ZooKeeper 3.7 or later."""
        return next(iter(await self.authenticated_ids()), None)

    async def authenticated_ids(self) -> tuple[ZnodeId, ...]:
        """Give all ids that we have proven: with a login over TLS two, and ACLs of ours get both. ZooKeeper 3.7."""
        found = requests.read_ids(await self._read(WhoAmI(), ""))
        return tuple(one for scheme in _PROVEN for one in found if one.scheme == scheme)

    # Reading.

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Give a znode's data, empty where there is none. watch: called at its next change, or its end."""
        whole = self._whole(path)
        accepted = None if watch is None else self._watching(self._watches.data, whole, watch)
        data, stat = wire.GetData.deserialize(
            await self._read(wire.GetData(whole, watch is not None), path, accepted), 0
        )
        return data or b"", requests.stat_of(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Give the names of a znode's children, in no order. watch: called when one comes or goes."""
        whole = self._whole(path)
        accepted = None if watch is None else self._watching(self._watches.children, whole, watch)
        return requests.read_names(await self._read(wire.GetChildren(whole, watch is not None), path, accepted))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Give a znode's Stat, None when there is none. watch: called when it comes, changes or goes."""
        whole = self._whole(path)

        def accepted(code: int) -> None:
            if watch is not None and code in (0, NoNodeError.code):
                (self._watches.existence if code else self._watches.data)(whole, watch)

        try:
            return requests.read_stat(await self._read(wire.Exists(whole, watch is not None), path, accepted))
        except NoNodeError:
            return None

    async def acls(self, path: str) -> tuple[tuple[ZnodeAcl, ...], Stat]:
        """Give a znode's ACL, in the order in which it is kept."""
        return requests.read_acls(await self._read(wire.GetACL(self._whole(path)), path))

    async def sync(self, path: str) -> None:
        """Have the server that we talk to catch up with its leader before what is asked next."""
        await self._read(wire.Sync(self._whole(path)), path)

    # Changing.

    async def set_acls(self, path: str, acls: Sequence[ZnodeAcl], version: int = ANY_VERSION) -> Stat:
        """Change a znode's ACL. version: `Stat.acl_version` that it must have."""
        request = wire.SetACL(self._whole(path), requests.sent_acls(acls), version)
        return requests.read_stat(await self._change(request, path))

    async def create(
        self, path: str, data: bytes | None, acls: Sequence[ZnodeAcl], *, ephemeral: bool = False,
        sequential: bool = False,
    ) -> str:  # fmt: skip
        """Make a znode and give its path. sequential: ten digits are added; ephemeral: it ends with the session."""
        request = requests.create_request(self._whole(path), Create(path, data, tuple(acls), ephemeral, sequential))
        return self._relative(wire.Create.deserialize(await self._change(request, path), 0))

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Write a znode's data. version: `Stat.version` that it must have."""
        return requests.read_stat(await self._change(wire.SetData(self._whole(path), data, version), path))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a znode without children. version: `Stat.version` that it must have."""
        await self._change(wire.Delete(self._whole(path), version), path)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Do all, or none: the error is that of the operation that failed. The answers are in the same order."""
        asked = [requests.operation_request(self._whole(one.path), one) for one in operations]
        results = requests.read_results(await self._change(wire.Transaction(asked), ""), operations)
        return [self._relative(one) if isinstance(one, str) else one for one in results]

    async def make_chroot(self, acls: Sequence[ZnodeAcl]) -> None:
        """Make the znodes of the chroot that are missing, each with this ACL."""
        parts = self._chroot.split("/")
        for end in range(2, len(parts) + 1):
            path = "/".join(parts[:end])
            try:
                await self._change(requests.create_request(path, Create(path, None, tuple(acls))), path)
            except NodeExistsError:
                pass

    # Many at a time, without a task for each: an answer for each, in their order, or the error that it met.

    async def acls_of(self, paths: Sequence[str]) -> list[tuple[tuple[ZnodeAcl, ...], Stat] | ZooKeeperError]:
        """Give the ACLs of many znodes."""
        bodies = [requests.path_body(self._whole(path)) for path in paths]
        return await self._read_all(wire.GetACL.type, bodies, paths, requests.read_acls)

    async def children_of(self, paths: Sequence[str]) -> list[list[str] | ZooKeeperError]:
        """Give the names of the children of many znodes, in no order."""
        bodies = [requests.children_body(self._whole(path)) for path in paths]
        return await self._read_all(wire.GetChildren.type, bodies, paths, requests.read_names)

    async def set_acls_of(self, wanted: Sequence[tuple[str, Sequence[ZnodeAcl]]]) -> list[Stat | ZooKeeperError]:
        """Change the ACLs of many znodes."""
        rest, last, bodies = b"", None, []
        for path, acls in wanted:
            if acls is not last:
                rest, last = requests.set_acl_rest(acls, ANY_VERSION), acls
            bodies.append(requests.path_body(self._whole(path)) + rest)
        return await self._ask_all(wire.SetACL.type, bodies, [path for path, _ in wanted], requests.read_stat)

    # Below.

    async def _read_all(
        self, kind: int, bodies: Sequence[bytes], paths: Sequence[str], read: Callable[[bytes], T]
    ) -> list[T | ZooKeeperError]:
        found = await self._ask_all(kind, bodies, paths, read)
        while lost := [at for at, one in enumerate(found) if isinstance(one, ConnectionLossError) and not one.detail]:
            again = await self._ask_all(kind, [bodies[at] for at in lost], [paths[at] for at in lost], read)
            for at, one in zip(lost, again, strict=True):
                found[at] = one
        return found

    async def _ask_all(
        self, kind: int, bodies: Sequence[bytes], paths: Sequence[str], read: Callable[[bytes], T]
    ) -> list[T | ZooKeeperError]:
        try:
            connection = await self._connection("")
        except ZooKeeperError as e:
            return [e] * len(paths)
        answers = await connection.ask_all(kind, bodies)
        return [
            error_for(code, path) if code else read(body) for (code, body), path in zip(answers, paths, strict=True)
        ]

    async def _read(self, request: Request, path: str, accepted: Accepted | None = None) -> bytes:
        while True:
            try:
                return await self._ask(request, path, accepted)
            except ConnectionLossError as e:
                if e.detail:  # none came about, in all the time that there was
                    raise

    async def _change(self, request: Request, path: str) -> bytes:
        return await self._ask(request, path, None)

    async def _ask(self, request: Request, path: str, accepted: Accepted | None) -> bytes:
        connection = await self._connection(path)
        try:
            return await connection.ask(request, accepted)
        except ZooKeeperError as e:
            raise type(e)(path, e.detail) from None

    async def _connection(self, path: str) -> Connection:
        assert self._session is not None, "started"
        session = self._session
        if (connection := session.usable) is not None:
            return connection
        try:
            async with asyncio.timeout(self.settings.connection_timeout_ms / 1000):
                return await session.connection()
        except TimeoutError:
            raise session.why_not_connected() from None
        except ZooKeeperError as e:
            raise type(e)(path, e.detail) from None

    @staticmethod
    def _watching(add: Callable[[str, Watch], None], whole: str, watch: Watch) -> Accepted:
        def accepted(code: int) -> None:
            if not code:
                add(whole, watch)

        return accepted

    def _whole(self, path: str) -> str:
        return path if not self._chroot else self._chroot if path == "/" else self._chroot + path

    def _relative(self, whole: str) -> str:
        return whole[len(self._chroot) :] or "/"

    def _tell(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            listener(event)
