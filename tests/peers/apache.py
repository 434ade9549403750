"""Apache Kafka as the software of a node: the one way in which tests start a JVM node, alone or among ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from barnabas.client.cluster import channel_settings
from barnabas.client.config import ClientConfig
from barnabas.net.client import Channel, ChannelError
from barnabas.server.dev_node import DevFiles

from .maven import KAFKA, java, kafka_classpath

READY_LINE: Final = "Kafka Server started"
START_TIMEOUT_S: Final = 150
STOP_TIMEOUT_S: Final = 60
SMALL_JVM: Final = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Quick to start; what a test needs of speed it has."""
_HERE: Final = Path(__file__).resolve().parent


class ApacheKafka:
    """The command of a node with a `server.properties`, broker or controller or both, and when it is ready.

    jvm: options of the launcher; logins: client settings, each of which has to be let in before the node counts as
    ready; log_requests: every request that it gets, in its log (JSON, `kafka.request.logger`); release: of Kafka;
    plugins: folders of Java classes that its configuration names.
    """

    def __init__(
        self,
        jvm: Sequence[str] = SMALL_JVM,
        *,
        logins: Sequence[Mapping[str, str]] = (),
        log_requests: bool = False,
        release: str = KAFKA,
        plugins: Sequence[Path] = (),
    ) -> None:
        self._jvm = tuple(jvm)
        self._classpath = ":".join([*map(str, plugins), kafka_classpath(release)])
        self._logins = [ClientConfig.from_properties(dict(login)) for login in logins]
        self._log_requests = log_requests
        self.refusal = ""
        """Why the last login was refused; empty when none was."""

    def command(self, files: DevFiles) -> list[str]:
        """Give the command for the node with these files."""
        return [
            java(),
            *self._jvm,
            f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}",
            f"-Dbarnabas.requests={'DEBUG' if self._log_requests else 'OFF'}",
            "-cp",
            self._classpath,
            "kafka.Kafka",
            str(files.properties),
        ]

    def environment(self) -> dict[str, str]:
        """Give the environment variables of the process."""
        return dict(os.environ)

    def is_ready(self, files: DevFiles, log: str) -> bool:
        """Say whether the node has announced itself and lets everybody in who is to be let in."""
        if READY_LINE not in log:
            return False
        with ThreadPoolExecutor(1) as thread:  # the caller may be a coroutine of another loop
            self.refusal = thread.submit(asyncio.run, self._try_logins()).result()
        return not self.refusal

    async def _try_logins(self) -> str:
        for config in self._logins:
            host, _, port = config["bootstrap.servers"][0].rpartition(":")
            try:
                channel = await Channel.open(host, int(port), channel_settings(config))
            except ChannelError as e:
                return str(e)
            await channel.close()
        return ""
