"""Apache Kafka's command-line classes, run in one warm JVM that the whole test run shares.

A cold JVM costs about two seconds a tool; a warm one a few hundredths. Kafka's own `Exit` procedures, made
for that, keep a tool's exit from ending the JVM. Main classes of 4.3.1 are listed below.
"""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from .maven import KAFKA, compiled, java, kafka_classpath

TOPIC_COMMAND: Final = "org.apache.kafka.tools.TopicCommand"
CONFIG_COMMAND: Final = "kafka.admin.ConfigCommand"
ACL_COMMAND: Final = "org.apache.kafka.tools.AclCommand"
CONSUMER_GROUP_COMMAND: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUPS_COMMAND: Final = "org.apache.kafka.tools.GroupsCommand"
GET_OFFSET_SHELL: Final = "org.apache.kafka.tools.GetOffsetShell"
CONSOLE_PRODUCER: Final = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE: Final = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE: Final = "org.apache.kafka.tools.ConsumerPerformance"
DUMP_LOG_SEGMENTS: Final = "org.apache.kafka.tools.DumpLogSegments"
BROKER_API_VERSIONS: Final = "org.apache.kafka.tools.BrokerApiVersionsCommand"
LOG_DIRS_COMMAND: Final = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS_COMMAND: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
METADATA_QUORUM_COMMAND: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN_PARTITIONS_COMMAND: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LEADER_ELECTION_COMMAND: Final = "org.apache.kafka.tools.LeaderElectionCommand"
METADATA_SHELL: Final = "org.apache.kafka.shell.MetadataShell"
FEATURE_COMMAND: Final = "org.apache.kafka.tools.FeatureCommand"
CLUSTER_TOOL: Final = "org.apache.kafka.tools.ClusterTool"
TRANSACTIONS_COMMAND: Final = "org.apache.kafka.tools.TransactionsCommand"
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"
CLIENT_METRICS_COMMAND: Final = "org.apache.kafka.tools.ClientMetricsCommand"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
DELEGATION_TOKEN_COMMAND: Final = "org.apache.kafka.tools.DelegationTokenCommand"

_HERE: Final = Path(__file__).resolve().parent
_LEAVES_CLIENTS: Final = frozenset({TRANSACTIONS_COMMAND})
"""They rely on the end of the JVM: their clients would go on looking for nodes, and complain in others' output."""
_PATIENT: Final = {CONSUMER_GROUP_COMMAND: ("--timeout", "60000")}
"""What makes a tool wait for a busy machine as long as the others do: by itself this one gives up after 5 s."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one run of a tool gave."""

    code: int
    stdout: str
    stderr: str


class ToolError(AssertionError):
    """A tool that had to succeed did not."""


class ToolRunner:
    """One warm JVM; runs one tool at a time. `close` it by the end of the test run."""

    def __init__(self, extra_classpath: str = "", options: Sequence[str] = (), release: str = KAFKA) -> None:
        """options: more options of the Java launcher; release: whose tools."""
        classpath = f"{compiled(_HERE / 'java' / 'ToolRunner.java')}:{kafka_classpath(release)}"
        if extra_classpath:
            classpath += f":{extra_classpath}"
        self._process = subprocess.Popen(
            [
                java(),
                "-Xmx256M",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                f"-Dlog4j2.configurationFile={_HERE / 'log4j2-tools.properties'}",
                *options,
                "-cp",
                classpath,
                "ToolRunner",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Give the process id of the JVM."""
        return self._process.pid

    def run(self, main_class: str, *args: str, stdin: str = "") -> ToolResult:
        """Run one main class with these arguments to its end; a non-zero exit is a result, not an error."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        args += _PATIENT.get(main_class, ())
        typed = stdin.encode()
        with self._lock:
            process.stdin.write(
                b"".join([_utf(main_class), struct.pack(">i", len(args)), *map(_utf, args)])
                + struct.pack(">i", len(typed))
                + typed
            )
            process.stdin.flush()
            code = _int(process.stdout)
            out = _exactly(process.stdout, _int(process.stdout)).decode()
            err = _exactly(process.stdout, _int(process.stdout)).decode()
        return ToolResult(code, out, err)

    def close(self) -> None:
        """End the JVM and wait until it is gone."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


_shared: ToolRunner | None = None
_shared_lock = threading.Lock()


def shared_runner() -> ToolRunner:
    """Give the run's one warm JVM, started on first use."""
    global _shared  # one JVM a test run is the point
    with _shared_lock:
        if _shared is None:
            _shared = ToolRunner()
        return _shared


def close_shared_runner() -> None:
    """End the shared JVM if it was ever started."""
    global _shared
    with _shared_lock:
        if _shared is not None:
            _shared.close()
            _shared = None


def run_tool(main_class: str, *args: str, check: bool = True, stdin: str = "") -> str:
    """Run a Kafka tool and give its stdout; check: a non-zero exit code raises ToolError."""
    result = run_tool_result(main_class, *args, stdin=stdin)
    if check and result.code != 0:
        raise ToolError(
            f"{main_class} {' '.join(args)} gave exit code {result.code}\n"
            f"--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
        )
    return result.stdout


def run_tool_result(main_class: str, *args: str, stdin: str = "") -> ToolResult:
    """Run a Kafka tool and give its exit code, stdout and stderr."""
    if main_class in _LEAVES_CLIENTS:
        with closing(ToolRunner()) as alone:
            return alone.run(main_class, *args, stdin=stdin)
    return shared_runner().run(main_class, *args, stdin=stdin)


def _utf(text: str) -> bytes:
    encoded = text.encode()  # the same as Java's modified UTF-8 for what arguments hold
    return struct.pack(">H", len(encoded)) + encoded


def _int(stream: IO[bytes]) -> int:
    return int.from_bytes(_exactly(stream, 4), "big", signed=True)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    chunk = stream.read(size)
    if len(chunk) < size:
        raise ToolError("the JVM that runs Kafka's tools has ended by itself; its stderr says why")
    return chunk
