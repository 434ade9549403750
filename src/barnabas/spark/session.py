"""A Spark session, set up for `format("barnabas")`: in this process, on a cluster, or through Connect."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
MIN_JAVA: Final = 17

_QUIET_LOG4J: Final = Path(__file__).with_name("quiet.log4j2.properties")
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
            chosen.setdefault("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_QUIET_LOG4J.as_uri()}")
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
