"""Spark's own daemons as processes: a standalone master with a worker, and a Connect server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from barnabas.testing.ports import free_ports

START_TIMEOUT_S: Final = 240
HOME: Final = Path(pyspark.__file__).parent
MASTER_READY: Final = "I have been elected leader"
WORKER_READY: Final = "Successfully registered with master"
CONNECT_READY: Final = "Spark Connect server started at"
_DEPLOY: Final = "org.apache.spark.deploy"
_LOG4J: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.target = SYSTEM_OUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %p %c{1}: %m%n%ex
"""


class ProcessError(AssertionError):
    """A process did not do what it was started for; the text holds its last lines."""


class Daemon:
    """A process that says a line when it is ready; ended with its children."""

    def __init__(self, command: Sequence[str], ready: str, env: Mapping[str, str]) -> None:
        self._lines: deque[str] = deque(maxlen=200)
        self._pattern = re.compile(re.escape(ready))
        self._ready = threading.Event()
        self._said = False
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(env), start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        """Wait for the line."""
        if not self._ready.wait(START_TIMEOUT_S) or not self._said:
            self.stop()
            raise ProcessError("not ready:\n" + "\n".join(self._lines))

    def stop(self) -> None:
        """End it and whatever it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line.rstrip())
            if self._pattern.search(line):
                self._said = True
                self._ready.set()
        self._ready.set()


class StandaloneCluster:
    """A master and one worker with two cores, on loopback. url: for `master`."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        log4j = folder / "log4j2.properties"
        log4j.write_text(_LOG4J)
        self.env = dict(env) | {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOG_DIR": str(folder / "logs"),
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={log4j}",
            "SPARK_SUBMIT_OPTS": f"-Dlog4j2.configurationFile={log4j}",
            "PYSPARK_PYTHON": sys.executable,
        }
        self._daemons: list[Daemon] = []

    def __enter__(self) -> Self:
        port, web, worker_web = free_ports(3)
        self.url = f"spark://127.0.0.1:{port}"
        self._start(
            f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web),
            ready=MASTER_READY,
        ).wait_ready()  # fmt: skip
        self.start_worker("127.0.0.1", worker_web)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for daemon in reversed(self._daemons):
            daemon.stop()

    def start_worker(self, host: str, web: int) -> None:
        """Start a worker with two cores. host: an address of loopback; Spark takes each for a machine of its own."""
        self._start(
            f"{_DEPLOY}.worker.Worker", "--host", host, "-c", "2", "-m", "2g", "--webui-port", str(web), self.url,
            ready=WORKER_READY,
        ).wait_ready()  # fmt: skip

    def start_connect_server(self) -> str:
        """Start a Spark Connect server whose work runs on this cluster; give its `sc://` address."""
        (port,) = free_ports(1)
        command = [str(HOME / "bin" / "spark-submit"), "--master", self.url]
        for key, value in (APP | {"spark.connect.grpc.binding.port": str(port)}).items():
            command += ["--conf", f"{key}={value}"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        daemon = Daemon(command, CONNECT_READY, self.env)
        self._daemons.append(daemon)
        daemon.wait_ready()
        return f"sc://127.0.0.1:{port}"

    def _start(self, *command: str, ready: str) -> Daemon:
        env = self.env | {"SPARK_DAEMON_MEMORY": "256m"}  # too little for a Connect server, which would heed it too
        daemon = Daemon([str(HOME / "bin" / "spark-class"), *command], ready, env)
        self._daemons.append(daemon)
        return daemon


APP: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}
"""What an application on the small cluster is given."""
