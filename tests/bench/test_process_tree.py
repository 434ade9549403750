"""All that a process has started is found, and nothing of it is left."""

from __future__ import annotations

import subprocess
import sys

from bench.process_tree import end, resident_bytes, tree

PATIENCE_S = 60
CHILD = "import sys; print('here', flush=True); sys.stdin.read()"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {CHILD!r}]).wait()"


def test_what_a_process_has_started_is_counted_and_ended_with_it() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"here\n"
        both = tree(parent.pid)
        assert [process.lives for process in both] == [True, True]
        assert tree(both[1].pid) == both[1:]
        assert resident_bytes(parent.pid) > resident_bytes(both[1].pid) > 1_000_000
        parent.kill()
        parent.wait()
        assert [process.lives for process in both] == [False, True]
        end(both, patience_s=0)
        end(both, PATIENCE_S)
        assert not any(process.lives for process in both)


def test_a_process_that_is_not_there_has_no_tree() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert tree(process.pid) == []
    assert resident_bytes(process.pid) == 0
