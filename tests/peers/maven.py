"""Apache Kafka's own jars, fetched once through Maven into a cache; a peer that cannot be had is an error."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

KAFKA: Final = "4.3.1"
OLDER_KAFKA: Final = "4.0.1"
"""The oldest line whose nodes may be in one cluster with ours; it knows fewer versions of some APIs."""
OLD_KAFKA: Final = "2.1.1"
"""The last line that knew nothing of sessions' lifetimes (KIP-368 came with 2.2); runs on Java 11 beside ZooKeeper."""
OLD_CLIENTS: Final = "3.9.1"
ZOOKEEPER_KAFKA: Final = "3.9.1"
"""The last release that runs on ZooKeeper; it carries ZooKeeper 3.8.4."""
# slf4j 1.7 (which Kafka carries) finds log4j2 only through this binding.
_LOG4J: Final = "2.25.4"
CONNECT_LINES: Final = (KAFKA, "3.9.1", "2.3.0")
"""Releases of Connect's workers that stand in one group with ours; 2.3.0 is the last one before signed requests."""
SPARK: Final = version("pyspark")
_DELTA: Final = "4.4.0"
"""The release of Delta Lake for the Spark that we pin."""
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
    f"kafka-{OLD_KAFKA}": (f"org.apache.kafka:kafka_2.12:{OLD_KAFKA}", "org.slf4j:slf4j-simple:1.7.25"),
    f"kafka-{ZOOKEEPER_KAFKA}": (
        f"org.apache.kafka:kafka_2.13:{ZOOKEEPER_KAFKA}",
        f"org.apache.kafka:kafka-tools:{ZOOKEEPER_KAFKA}",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
    f"kafka-clients-{OLD_CLIENTS}": (f"org.apache.kafka:kafka-clients:{OLD_CLIENTS}",),
    **{f"kafka-clients-{old}": (f"org.apache.kafka:kafka-clients:{old}",) for old in ("1.1.1", "2.1.1", "2.3.1")},
    # Its SCRAM wants a part of Java that left the platform with Java 11.
    "kafka-clients-0.11.0.3": ("org.apache.kafka:kafka-clients:0.11.0.3", "javax.xml.bind:jaxb-api:2.3.1"),
    f"connect-{KAFKA}": (
        f"org.apache.kafka:connect-runtime:{KAFKA}",
        f"org.apache.kafka:connect-file:{KAFKA}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}",
    ),
    "connect-3.9.1": (
        "org.apache.kafka:connect-runtime:3.9.1",
        "org.apache.kafka:connect-file:3.9.1",
        "org.slf4j:slf4j-reload4j:1.7.36",  # the worker itself needs the classes of log4j 1
    ),
    "connect-2.3.0": (
        "org.apache.kafka:connect-runtime:2.3.0",
        "org.apache.kafka:connect-file:2.3.0",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    f"delta-{_DELTA}": (
        f"io.delta:delta-spark_4.2_2.13:{_DELTA}",
        f"io.delta:delta-storage:{_DELTA}",
        f"io.delta:delta-kernel-api:{_DELTA}",
        f"io.delta:delta-kernel-defaults:{_DELTA}",
    ),
    f"spark-kafka-{SPARK}": (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",),
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
    """Give the class path of an older release of Kafka's clients, from 0.11.0.3 to 2.3.1, to run."""
    return f"{jars(f'kafka-clients-{version}')}/*"


def connect_classpath(version: str = KAFKA) -> str:
    """Give the class path of a Connect worker with the file connectors: 4.3.1, 3.9.1 or 2.3.0."""
    return f"{jars(f'connect-{version}')}/*"


def spark_kafka_jars() -> list[Path]:
    """Give the jars of Spark's own `kafka` source, without those that come with PySpark."""
    folder, own = jars(f"spark-kafka-{SPARK}"), ("spark-sql-kafka", "spark-token", "kafka-clients", "commons-pool2")
    return [jar for jar in sorted(folder.iterdir()) if jar.name.startswith(own)]


def delta_jars() -> list[Path]:
    """Give the jars that make Spark know Delta Lake."""
    return sorted(jars(f"delta-{_DELTA}").iterdir())


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
        # Delta's own jars are enough: what they need comes with Spark.
        alone = group == "io.delta" or (name == "kafka-clients" and version == OLD_CLIENTS)
        without = [("*", "*")] if alone else []
        if name == "connect-runtime" and version == "2.3.0":
            without = [("org.slf4j", "slf4j-log4j12")]  # slf4j-simple needs no file to say anything
        rows.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            f"<exclusions>{''.join(map(_exclusion, without))}</exclusions></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>barnabas</groupId><artifactId>peers</artifactId><version>1</version>"
        f"<dependencies>{''.join(rows)}</dependencies></project>"
    )


def _exclusion(artifact: tuple[str, str]) -> str:
    return f"<exclusion><groupId>{artifact[0]}</groupId><artifactId>{artifact[1]}</artifactId></exclusion>"


def _program(name: str, advice: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(f"there is no `{name}` on the PATH: {advice}")
    return found
