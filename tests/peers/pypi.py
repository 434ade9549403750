"""Old releases of Python clients, each fetched once into a folder of its own, to run with PYTHONPATH there."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from .maven import PeerUnavailableError, cache_dir


def installed(requirement: str) -> Path:
    """Give the folder of one package, `name==version`, without what it depends on."""
    folder = cache_dir() / "python" / f"{requirement}-{sys.version_info.major}.{sys.version_info.minor}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as work:
        target = Path(work) / "site"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*pip, "--only-binary", ":all:", "--target", str(target), requirement],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0:
            raise PeerUnavailableError(f"pip could not fetch {requirement}:\n{done.stderr[-3000:]}")
        try:
            target.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was quicker
                raise
    return folder
