"""What a local cluster keeps in its directory between runs, and who runs it now: `cluster.json` and a lock."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from barnabas.cli.errors import CliError
from barnabas.net.dev_ca import write_private
from barnabas.testing.processes import NodeProcess, ProcessCluster
from barnabas.testing.shape import Address, ClusterPlan, NodePlan, Secrets

_FILE: Final = "cluster.json"
_LOCK: Final = "cluster.lock"


def exists(directory: Path) -> bool:
    """Say whether there is a cluster in a directory."""
    return (directory / _FILE).exists()


def save(cluster: ProcessCluster) -> None:
    """Keep the shape, readable by its owner only: passwords are in it."""
    plan = cluster.plan
    document = {
        "cluster_id": plan.cluster_id,
        "plaintext": plan.plaintext,
        "secrets": {} if plan.plaintext else asdict(plan.secrets),
        "voters": list(plan.voters),
        "nodes": [asdict(node) for node in plan.nodes.values()],
    }
    write_private(plan.files.directory / _FILE, json.dumps(document, indent=2).encode() + b"\n")


def load(directory: Path) -> ProcessCluster:
    """Give the cluster that a directory holds, nothing of it running; CliError when there is none."""
    document = _read(directory)
    cluster = ProcessCluster(directory, plaintext=True, dynamic=True)
    plan = cluster.plan = ClusterPlan(directory, plaintext=True, dynamic=True)
    plan.plaintext = document["plaintext"]  # only now: what secures it is there already
    plan.cluster_id = document["cluster_id"]
    plan.secrets = Secrets(**document["secrets"])
    plan.voters = tuple(document["voters"])
    for saved in document["nodes"]:
        node = NodePlan(**{**saved, "client": _address(saved["client"]), "controller": _address(saved["controller"])})
        plan.nodes[node.node_id] = node
        cluster.nodes[node.node_id] = NodeProcess(node, plan.files.node(node.node_id))
    return cluster


class RunLock:
    """Held by the one process that runs a directory's cluster; the lock goes with the process, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Take it; CliError when somebody else has it."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file: IO[str] = (directory / _LOCK).open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise CliError(f"The cluster in {directory} runs already: see `barnabas cluster status`.") from None

    def release(self) -> None:
        """Give it back."""
        self._file.close()


def is_run(directory: Path) -> bool:
    """Say whether a process runs the cluster in a directory now."""
    if not (directory / _LOCK).exists():
        return False
    try:
        RunLock(directory).release()
    except CliError:
        return True
    return False


def leftovers(cluster: ProcessCluster) -> dict[int, int]:
    """Give the nodes, with their process ids, that a run left behind which was killed itself."""
    found = {}
    for node in cluster:
        with suppress(OSError, ValueError, KeyError):
            pid = int(json.loads((node.files.directory / "ready.json").read_text())["pid"])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if os.fsencode(node.files.properties) in command:
                found[node.node_id] = pid
    return found


def _read(directory: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads((directory / _FILE).read_text())
    except OSError:
        raise CliError(f"There is no cluster in {directory}: make one with `barnabas cluster start`.") from None
    return document


def _address(saved: dict[str, int] | None) -> Address | None:
    return None if saved is None else Address(**saved)
