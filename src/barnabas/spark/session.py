"""A Spark session, set up for `format("barnabas")`: in this process, on a cluster, or through Connect."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
MIN_JAVA: Final = 17

_QUIET_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# The JVM reports a Python process that it ended itself, when a query stops.
logger.python.name = org.apache.spark.api.python
logger.python.level = off
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_IN_THIS_PROCESS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


class SparkMissingError(Exception):
    """Spark cannot start on this machine; the message says what it lacks."""


def open_session(
    app_name: str, *, master: str = LOCAL, settings: Mapping[str, str] | None = None, quiet: bool = False
) -> SparkSession:
    """Give a session. master: `local[N]`, `spark://host:port`, `yarn`, `k8s://...`, or `sc://host:port` for Connect.

    settings: on top of, and instead of, our own. quiet: the JVM logs errors only.
    """
    chosen = _ALWAYS | dict(settings or {})
    if master.startswith("sc://"):
        builder = SparkSession.builder.remote(master)
    else:
        _check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            chosen = _IN_THIS_PROCESS | chosen
        if quiet:
            chosen.setdefault("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_quiet_log4j()}")
        builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        raise SparkMissingError(
            f"Spark needs Java {MIN_JAVA} or later: install it, or point JAVA_HOME to it (sc://host:port needs none)"
        )


def _quiet_log4j() -> Path:
    path = Path(tempfile.mkdtemp(prefix="barnabas-spark-"), "log4j2.properties")
    path.write_text(_QUIET_LOG4J, encoding="utf-8")
    return path
