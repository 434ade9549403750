"""Thousands of connections whose sessions have one lifetime: they are renewed, one after the other.

BARNABAS_CROWD=10000 BARNABAS_CROWD_LIFE_S=300 asks for more than the few that every run tries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.clients.nodes import ServedNode
from tests.server.frames import FramePeer

from .nodes import SHORT, session_settings

pytestmark = pytest.mark.slow

CONNECTIONS: Final = int(os.environ.get("BARNABAS_CROWD", "1000"))
LIFE_S: Final = int(os.environ.get("BARNABAS_CROWD_LIFE_S", "10"))


@pytest.mark.requirement("H-40")
@pytest.mark.timeout(2 * LIFE_S + 300)
def test_nobody_is_cut_off_and_there_is_no_storm(tmp_path: Path) -> None:
    settings = session_settings(
        listener__name__short__connections__max__reauth__ms=str(LIFE_S * 1000), socket__listen__backlog__size="1000"
    )
    address = next(one for one in settings["listeners"].split(",") if one.startswith(SHORT))
    port = int(address.rpartition(":")[2])
    with ServedNode(tmp_path, overrides=settings) as node:
        command = [sys.executable, "-m", "tests.sessions.crowd", str(port), str(CONNECTIONS), "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * LIFE_S + 240)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["errors"] == []
        assert found["renewals"] == CONNECTIONS
        assert "its session has ended" not in node.log()
        with FramePeer(port) as peer:
            assert peer.login("root").session_lifetime_ms == LIFE_S * 1000
    # They came within a moment; each tenth of the time in which they meant to renew has its share of them.
    planned = found["planned"]
    tenths = [0] * 10
    for when in planned:
        tenths[min(9, int(10 * when / planned[-1]))] += 1
    assert max(tenths) < CONNECTIONS * 0.3, tenths
