"""The client under test: its settings in files of every spelling, its command line, and its process."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.core.sasl.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE, format_jaas
from barnabas.model.config import format_properties
from barnabas.net.dev_ca import write_private

END_SECONDS: Final = 5
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
ENVIRONMENT: Final = "REAUTH_"
"""What stands before a placeholder's name, in capitals, in the client's environment."""


class CommandError(Exception):
    """The command cannot be run as it stands."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to connect. ca: path of the trusted certificate (PEM), None without TLS."""

    bootstrap: str
    topic: str
    protocol: str
    mechanism: str
    username: str
    password: str
    ca: str | None

    def places(self, folder: Path) -> dict[str, str]:
        """Write the settings in each family's spelling, and give what placeholders stand for."""
        places = {
            "bootstrap": self.bootstrap,
            "topic": self.topic,
            "protocol": self.protocol,
            "mechanism": self.mechanism,
            "username": self.username,
            "password": self.password,
            "ca": self.ca or "",
        }
        for name, suffix, text in (
            ("properties", "properties", self.java()),
            ("librdkafka", "conf", self.librdkafka()),
            ("python", "json", self.python()),
        ):
            path = folder / f"client-{name}.{suffix}"
            write_private(path, text.encode())
            places[name] = str(path)
        return places

    def java(self) -> str:
        """Give a `client.properties` for Java."""
        module = PLAIN_LOGIN_MODULE if self.mechanism == "PLAIN" else SCRAM_LOGIN_MODULE
        login = format_jaas(module, {"username": self.username, "password": self.password})
        trust = {} if self.ca is None else {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        return format_properties({**self._common(), "sasl.jaas.config": login, **trust})

    def librdkafka(self) -> str:
        """Give a file for kcat and confluent-kafka."""
        trust = {} if self.ca is None else {"ssl.ca.location": self.ca}
        return format_properties(
            {**self._common(), "sasl.username": self.username, "sasl.password": self.password, **trust}
        )

    def python(self) -> str:
        """Give the keyword arguments for kafka-python, as JSON."""
        trust = {} if self.ca is None else {"ssl_cafile": self.ca}
        arguments = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.protocol,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            **trust,
        }
        return json.dumps(arguments, indent=2) + "\n"

    def _common(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
        }


def words(command: str, places: Mapping[str, str]) -> list[str]:
    """Give the words of a command line, placeholders filled in; CommandError for what is none."""
    try:
        found = shlex.split(command)
    except ValueError as e:
        raise CommandError(f"--client-command cannot be read: {e}") from None
    if not found:
        raise CommandError("--client-command is empty")

    def fill(place: re.Match[str]) -> str:
        if place[1] not in places:
            known = ", ".join(f"{{{name}}}" for name in places)
            raise CommandError(f"--client-command: {place[0]} stands for nothing; there are {known}")
        return places[place[1]]

    return [_PLACE.sub(fill, word) for word in found]


class ClientProcess:
    """The command while it runs, with all the processes that it starts. Use as a context manager."""

    def __init__(self, command: str, places: Mapping[str, str], log: Path) -> None:
        self._words = words(command, places)
        self._environment = {f"{ENVIRONMENT}{name.upper()}": value for name, value in places.items()}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ClientProcess:
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self._environment},
                    start_new_session=True,
                )
            except OSError as e:
                raise CommandError(f"--client-command: {self._words[0]}: {e.strerror or e}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Give the process id, which is also that of the session that all its processes belong to."""
        assert self._process is not None, "the command does not run"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Give how it ended, None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def output(self) -> str:
        """Give what it has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """Ask it to end, and then no longer ask; what it started ends with it."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
