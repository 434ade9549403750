"""`barnabas doctor machine`: Java, ports, codecs, limits."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final, NamedTuple

import typer

from barnabas.cli.tables import Output, OutputFormat, show
from barnabas.wire.compression import Compression, compress, decompress

_WANTED_FILES: Final = 4096
_SAMPLE: Final = b"barnabas" * 64


class Finding(NamedTuple):
    """What was looked at. advice: empty when all is well."""

    what: str
    found: str
    advice: str = ""


def machine(
    port: Annotated[list[int] | None, typer.Option(help="A port that a node is to listen on.")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what this machine lacks. Only the first block is needed to run a node; Spark and the tests need Java.

    Examples:

      barnabas doctor

      barnabas doctor machine --port 9092 --port 9093 --output json
    """
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _packages,
        _codecs,
        _open_files,
        _java,
        _spark,
        _kerberos,
        _maven,
    )
    findings = [check() for check in checks]
    findings += [_port(p) for p in port or (9092, 9093)]
    rows: list[dict[str, Any]] = [
        {"what": f.what, "ok": not f.advice, "found": f.found, "advice": f.advice or None} for f in findings
    ]
    show(rows, output)


def _python() -> Finding:
    return Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages() -> Finding:
    found, missing = [], []
    for name in ("uvloop", "cramjam", "google-crc32c", "immutables", "cryptography"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    advice = f"pip install {' '.join(missing)}" if missing else ""
    return Finding("libraries", ", ".join(found), advice)


def _codecs() -> Finding:
    broken = [
        codec.name.lower()
        for codec in Compression
        if codec is not Compression.NONE
        and decompress(codec, memoryview(compress(codec, _SAMPLE)), len(_SAMPLE)) != _SAMPLE
    ]
    working = [c.name.lower() for c in Compression if c is not Compression.NONE and c.name.lower() not in broken]
    return Finding(
        "codecs", ", ".join(working), f"{', '.join(broken)} do not work: reinstall cramjam" if broken else ""
    )


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    advice = (
        "" if soft >= _WANTED_FILES else f"raise it: ulimit -n {min(hard, 65536)}; segments and clients each take one"
    )
    return Finding("open files", f"{soft} (at most {hard})", advice)


def _java() -> Finding:
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    if java is None or not os.path.exists(java):
        return Finding("Java", "none", "install a JDK of version 17 or later, for Spark and for the tests")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    text = said[0] if said else "unknown version"
    digits = "".join(c if c.isdigit() else " " for c in text).split()
    old = bool(digits) and int(digits[0]) < 17
    return Finding("Java", f"{text} ({java})", "Spark 4 needs version 17 or later" if old else "")


def _spark() -> Finding:
    try:
        return Finding("Spark", f"pyspark {version('pyspark')}")
    except PackageNotFoundError:
        return Finding("Spark", "none", "pip install 'barnabas[spark]', for the data source and the demo")


def _kerberos() -> Finding:
    try:
        return Finding("Kerberos", f"gssapi {version('gssapi')}")
    except PackageNotFoundError:
        advice = "for SASL GSSAPI: apt-get install gcc python3-dev libkrb5-dev, and pip install 'barnabas[kerberos]'"
        return Finding("Kerberos", "none", advice)


def _maven() -> Finding:
    mvn = shutil.which("mvn")
    return Finding("Maven", mvn or "none", "" if mvn else "install Maven, for tests against Apache Kafka's own jars")


def _port(port: int) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as e:
            return Finding(f"port {port}", e.strerror or str(e), "stop who holds it, or set another in listeners")
    return Finding(f"port {port}", "free")
