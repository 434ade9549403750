"""How many files a process of ours may have open."""

from __future__ import annotations

import resource


def raise_open_files() -> None:
    """Take all the open files that the system lets us have: a node needs one a connection and one a segment."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
