"""Nodes of ours as users run them: `barnabas run` in a process of its own."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from barnabas.client.admin import Admin
from barnabas.client.admin.users import ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.config import Password, parse_properties
from barnabas.server.dev_node import client_texts
from barnabas.testing.ports import free_ports

START_LIMIT_S = 60
T = TypeVar("T")


def until(ask: Callable[[], T], wanted: Callable[[T], bool], limit_s: float = 60) -> T:
    """Ask again until the answer is as wanted: another process does its work in its own time."""
    end = time.monotonic() + limit_s
    while True:
        answer = ask()
        if wanted(answer):
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"after {limit_s} s still {answer!r}")
        time.sleep(0.01)


class ServedNode:
    """A node started by `barnabas run`; secured unless `plain`. Use as a context manager."""

    def __init__(self, folder: Path, *, plain: bool = False, overrides: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.plain = plain
        self._overrides = dict(overrides or {})
        self._ready = folder / "ready.json"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._users: dict[str, str] = {}
        self.bootstrap = ""
        self._configs: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Give the process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, and wait until it serves."""
        command = [str(Path(sys.executable).with_name("barnabas")), "run", "--dir", str(self.folder / "node")]
        command += ["--ready-file", str(self._ready)]
        if self.plain:
            command += ["--listener", f"PLAINTEXT://127.0.0.1:{free_ports(1)[0]}"]
        for key, value in self._overrides.items():
            command += ["--override", f"{key}={value}"]
        with self._log.open("ab") as log:
            self._process = process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: self._ready.exists() or process.poll() is not None, bool, START_LIMIT_S)
        assert process.poll() is None, self.log()
        ready = json.loads(self._ready.read_text())
        self.bootstrap = ready["bootstrap"]
        self._configs = ready["client_configs"]

    def stop(self) -> int:
        """Stop in an orderly way; gives the exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.terminate()
        try:
            return process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def reap(self) -> None:
        """Wait for a node that was killed, so that `start` can bring it up again."""
        process, self._process = self._process, None
        assert process is not None
        process.wait(30)
        self._ready.unlink(missing_ok=True)

    def log(self) -> str:
        """Give everything that the node has printed."""
        return self._log.read_text()

    def wait_for_log(self, wanted: Callable[[str], bool], since: int = 0) -> str:
        """Wait until what was logged after `since` characters is as wanted; gives it."""
        return until(lambda: self.log()[since:], wanted)

    def rss_mb(self) -> float:
        """Give the resident memory in MB (10^6)."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096 / 1e6

    # --- client settings, as each family spells them

    def java_file(self, user: str = "") -> Path:
        """Give the file for `--command-config`."""
        if not user:
            return Path(self._configs["java"])
        path = self.folder / f"{user}.properties"
        path.write_text(self._texts(user)["java"])
        return path

    def librdkafka_file(self) -> Path:
        """Give the file for `kcat -F`."""
        return Path(self._configs["librdkafka"])

    def librdkafka(self, user: str = "", password: str = "") -> dict[str, Any]:
        """Give the settings for confluent-kafka."""
        if not user:
            return dict(parse_properties(self.librdkafka_file().read_text()))
        return dict(parse_properties(self._texts(user, password)["librdkafka"]))

    def kafka_python(self, user: str = "", password: str = "") -> dict[str, Any]:
        """Give the arguments for kafka-python."""
        text = self._texts(user, password)["python"] if user else Path(self._configs["python"]).read_text()
        return dict(json.loads(text))

    def aiokafka(self, user: str = "", password: str = "") -> dict[str, Any]:
        """Give the arguments for aiokafka."""
        arguments = self.kafka_python(user, password)
        if "ssl_cafile" in arguments:
            arguments["ssl_context"] = ssl.create_default_context(cafile=arguments.pop("ssl_cafile"))
        return arguments

    def _texts(self, user: str, password: str = "") -> dict[str, str]:
        ca = str(self.folder / "node" / "ca.pem")
        return client_texts(self.bootstrap, ca, user, password or self._users[user])

    # --- the super user's doings

    def add_user(self, name: str) -> str:
        """Create a user who may do nothing; gives the name."""
        self._users[name] = f"{name}-secret"

        async def add(admin: Admin) -> None:
            outcome = await admin.alter_scram([ScramUpsertion(name, "SCRAM-SHA-512", Password(self._users[name]))])
            assert outcome == {name: None}

        self.as_admin(add)
        return name

    def allow(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Grant."""
        rule = AclBinding(
            ResourcePattern(kind, name, PatternType.LITERAL), f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )

        async def add(admin: Admin) -> None:
            assert await admin.create_acls([rule]) == [None]

        self.as_admin(add)

    def as_admin(self, work: Callable[[Admin], Any]) -> Any:
        """Run a coroutine function with the super user's admin client."""

        async def run() -> Any:
            config = ClientConfig.from_properties(parse_properties(self.java_file().read_text()))
            async with Admin(config) as admin:
                return await work(admin)

        return asyncio.run(run())
