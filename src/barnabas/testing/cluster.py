"""A secured node in a thread of this process: for tests that want a real broker in a fraction of a second."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import uvloop

from barnabas.model.acl import AclBinding
from barnabas.server.dev_node import DevFiles, prepare_secured, write_client_configs
from barnabas.server.network.conduct import SessionConduct
from barnabas.server.node import Node
from barnabas.testing.admin import NodeAdmin
from barnabas.testing.users import User

T = TypeVar("T")
QUICK: Final = {
    "offsets.topic.num.partitions": "4",
    "group.min.session.timeout.ms": "100",
    "log.initial.task.delay.ms": "500",
    "connection.failed.authentication.delay.ms": "0",
    "metadata.max.idle.interval.ms": "0",
}
"""Settings that only make tests quicker: few partitions for groups, no waiting where a test would wait too."""
CALL_SECONDS: Final = 120
STOP_SECONDS: Final = 60


class Cluster:
    """A node with TLS, SCRAM and ACLs on loopback, and what tests do to it.

    Start it with `start`, or as a context manager. Its loop is its own, so plain and asyncio tests alike can use it.
    """

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, *, conduct: SessionConduct | None = None
    ) -> None:
        """directory: where its files go. settings: Kafka's keys, over those of a development node. conduct: of
        sessions, when it is not to be as configured."""
        self.files = DevFiles(directory.absolute())
        self._settings = {**QUICK, **(settings or {})}
        self._conduct = conduct
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._node: Node | None = None
        self._users: dict[str, User] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the node, on the data it left when it ran before; returns once it serves."""
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="barnabas-node", daemon=True)
        self._thread.start()
        try:
            self._call(self._start())
        except BaseException:
            self._end_loop()
            raise

    def stop(self) -> None:
        """Stop the node cleanly; its files stay."""
        if self._node is not None:
            node, self._node = self._node, None
            self._call(node.stop())
        self._end_loop()

    async def _start(self) -> None:
        config = prepare_secured(self.files.directory, (0, 0), self._settings)
        node = Node(config, conduct=self._conduct)
        await node.start()
        self._node = node
        write_client_configs(self.files, node.bootstrap(), secured=True)

    def _end_loop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_SECONDS)
            self._loop.close()
            self._loop = self._thread = None

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the cluster is not running"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    @property
    def node(self) -> Node:
        """Give the node itself; it belongs to its own loop."""
        assert self._node is not None, "the cluster is not running"
        return self._node

    @property
    def bootstrap(self) -> str:
        """Give host:port for clients."""
        return self.node.bootstrap()

    @property
    def ca(self) -> str:
        """Give the path of the certificate that clients trust."""
        return str(self.files.ca)

    @property
    def admin(self) -> User:
        """Give the super user."""
        return User(self, "admin", self.files.password.read_text(encoding="ascii").strip())

    def as_user(self, name: str) -> User:
        """Give a user of that name, made with a password of its own when there is none; without any rights."""
        found = self._users.get(name)
        if found is None:
            found = self._users[name] = User(self, name, f"{name}-secret")
            self.run(lambda admin: admin.create_user(name, found.password))
        return found

    def run(self, work: Any) -> Any:
        """Run `work(NodeAdmin)`, a coroutine function, on the node's loop and give what it gives."""
        return self._call(work(NodeAdmin(self.node)))

    def create_acl(self, binding: AclBinding) -> None:
        """Add one rule."""
        self.run(lambda admin: admin.create_acl(binding))

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Make a topic; a dot in a configuration's name is written as two underscores."""
        named = {key.replace("__", "."): value for key, value in configs.items()}
        self.run(lambda admin: admin.create_topic(name, partitions, named))

    def reset(self) -> None:
        """Take away every topic, group, ACL and user that tests have made, quotas and configurations as well."""
        self._users.clear()
        self.run(lambda admin: admin.reset())
