"""A process that a crash test kills: a controller of a quorum that writes while it leads, and prints what was answered.

`python -m tests.server.raft.quorum_writer DIRECTORY NODE_ID LIFE PORT...` prints `up` once it knows the metadata, and
`ack NAME` for every write that was answered, with many under way at a time. When its input ends, it stops properly.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from itertools import count
from pathlib import Path

import structlog

from barnabas.server.node import Node
from barnabas.wire.errors import ApiError

from .quorums import Quorum, note, running

UNDER_WAY = 8
VOTERS = (1, 2, 3)


def quorum(directory: Path, ports: list[int]) -> Quorum:
    """Give the quorum that the test and its processes speak of; its log has many segments and no snapshots."""
    settings = {"internal.metadata.log.segment.bytes": "16384"}
    made = Quorum(directory, voters=VOTERS, static=True, settings=settings)
    made.ports = dict(zip(VOTERS, ports, strict=True))
    return made


async def write(node: Node, names: count[int], life: str) -> None:
    """Write one after the other while the node leads."""
    while True:
        name = f"{node.config.node_id}-{life}-{next(names)}"
        try:
            await node.controller.write(note(name, 1))
        except ApiError:
            await node.next_image()
        else:
            print("ack", name, flush=True)


async def main(directory: Path, node_id: int, life: str, ports: list[int]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    async with running(quorum(directory, ports), node_id) as controllers:
        print("up", flush=True)
        names = count()
        writers = [asyncio.create_task(write(controllers.nodes[node_id], names, life)) for _ in range(UNDER_WAY)]
        await asyncio.to_thread(sys.stdin.read)
        for writer in writers:
            writer.cancel()
        await asyncio.wait(writers)


if __name__ == "__main__":
    _, where, which, lives, *numbers = sys.argv
    asyncio.run(main(Path(where), int(which), lives, [int(number) for number in numbers]))
