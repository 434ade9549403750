"""Apache Kafka's own jars, fetched once through Maven into a cache; a peer that cannot be had is an error."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

KAFKA: Final = "4.3.1"
OLDER_KAFKA: Final = "4.0.1"
"""The oldest line whose nodes may be in one cluster with ours; it knows fewer versions of some APIs."""
OLD_CLIENTS: Final = "3.9.1"
# slf4j 1.7 (which Kafka carries) finds log4j2 only through this binding.
_LOG4J: Final = "2.25.4"
_ARTIFACTS: Final[dict[str, tuple[str, ...]]] = {
    f"kafka-{KAFKA}": (
        f"org.apache.kafka:kafka_2.13:{KAFKA}",
        f"org.apache.kafka:kafka-tools:{KAFKA}",
        f"org.apache.kafka:kafka-shell:{KAFKA}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}",
    ),
    f"kafka-{OLDER_KAFKA}": (
        f"org.apache.kafka:kafka_2.13:{OLDER_KAFKA}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}",
    ),
    f"kafka-clients-{OLD_CLIENTS}": (f"org.apache.kafka:kafka-clients:{OLD_CLIENTS}",),
    **{f"kafka-clients-{old}": (f"org.apache.kafka:kafka-clients:{old}",) for old in ("1.1.1", "2.3.1")},
}


class PeerUnavailableError(Exception):
    """A real peer that the tests need is not to be had on this machine; the text says what is missing."""


def cache_dir() -> Path:
    """Give the folder that downloads are kept in: `BARNABAS_CACHE`, else `~/.cache/barnabas`."""
    chosen = os.environ.get("BARNABAS_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "barnabas"


def kafka_classpath(version: str = KAFKA) -> str:
    """Give the class path of Apache Kafka 4.3.1 with its tools, or an older one; fetched on first use."""
    return f"{jars(f'kafka-{version}')}/*"


def old_clients_jar() -> Path:
    """Give the jar of the 3.9.1 clients, which still holds the ZooKeeper-era message definitions."""
    return jars(f"kafka-clients-{OLD_CLIENTS}") / f"kafka-clients-{OLD_CLIENTS}.jar"


def clients_classpath(version: str) -> str:
    """Give the class path of an older release of Kafka's clients, 1.1.1 or 2.3.1, to run."""
    return f"{jars(f'kafka-clients-{version}')}/*"


def jars(name: str) -> Path:
    """Give the folder of one set of jars, complete: it is renamed into place when all of it is here."""
    folder = cache_dir() / "jars" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as work:
        _copy_dependencies(_ARTIFACTS[name], Path(work))
        try:
            (Path(work) / "libs").rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was quicker, and its set is as good as ours
                raise
    return folder


def compiled(source: Path, classpath: str = "") -> Path:
    """Give the folder with the classes of one Java file, compiled when it has changed.

    classpath: what to compile against, in place of Kafka 4.3.1.
    """
    folder = cache_dir() / "classes" / hashlib.sha256(source.read_bytes() + classpath.encode()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as work:
        javac = _program("javac", "install a JDK of version 17 or later, not only its runtime")
        classes = Path(work) / "classes"
        against = ["-cp", classpath or kafka_classpath()]
        subprocess.run([javac, "-nowarn", *against, "-d", str(classes), str(source)], check=True, timeout=300)
        try:
            classes.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was quicker
                raise
    return folder


def java() -> str:
    """Give the Java launcher; PeerUnavailableError when the machine has none."""
    return _program("java", "install a JDK of version 17 or later")


def _copy_dependencies(artifacts: Sequence[str], work: Path) -> None:
    mvn = _program("mvn", "install Maven (Debian: maven)")
    (work / "pom.xml").write_text(_pom(artifacts))
    done = subprocess.run(
        [mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime"],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode != 0 or not (work / "libs").is_dir():
        tail = (done.stdout + done.stderr)[-3000:]
        raise PeerUnavailableError(f"Maven could not fetch {', '.join(artifacts)}:\n{tail}")


def _pom(artifacts: Sequence[str]) -> str:
    rows = []
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        # The old clients are wanted alone, for their definitions; nothing runs on them.
        alone = "<groupId>*</groupId><artifactId>*</artifactId>"
        alone = f"<exclusions><exclusion>{alone}</exclusion></exclusions>"
        rows.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            f"{alone if version == OLD_CLIENTS else ''}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>barnabas</groupId><artifactId>peers</artifactId><version>1</version>"
        f"<dependencies>{''.join(rows)}</dependencies></project>"
    )


def _program(name: str, advice: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(f"there is no `{name}` on the PATH: {advice}")
    return found
