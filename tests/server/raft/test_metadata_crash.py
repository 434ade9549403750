from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.server.controllers import formatted

ROUNDS = 30


@pytest.mark.crash
@pytest.mark.slow
def test_no_answered_metadata_change_is_lost_to_kill_9(tmp_path: Path) -> None:
    rng = Random(7)
    formatted(tmp_path)
    answered: set[str] = set()
    highest = 0
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.server.metadata_writer", str(tmp_path), str(highest + 1)],
            stdout=subprocess.PIPE,
            text=True,
        ) as writer:
            assert writer.stdout is not None
            found = set(writer.stdout.readline().split()[1:])
            assert answered <= found
            for _ in range(rng.randrange(200)):
                answered.add(writer.stdout.readline().split()[1])
            writer.kill()
            # What it had still printed before it died was answered as well.
            answered.update(line.split()[1] for line in writer.stdout if line.endswith("\n"))
        highest = max(map(int, found | answered), default=0) + 100
    assert len(answered) > ROUNDS
    snapshots = list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    assert snapshots, "the test wants snapshots to be under way"
    assert all(not p.name.startswith("0" * 20) for p in snapshots)
