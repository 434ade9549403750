"""Workers that do not tell, or do not forget, which topics connectors use: what they answer, beside a JVM worker."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.connect.rest.http import request
from tests.connect.workers import running, worker_properties
from tests.peers.connect import JvmWorker

pytestmark = [pytest.mark.slow, pytest.mark.peer]

SETTINGS: Final = ({"topic.tracking.enable": "false"}, {"topic.tracking.allow.reset": "false"})
FORBIDDEN: Final = [403, 403, 200, 403]
ASKED: Final = (("GET", "/connectors/nope/topics"), ("PUT", "/connectors/nope/topics/reset"))


async def test_what_is_not_tracked_is_forbidden_in_the_same_words(bootstrap: str, group: str, tmp_path: Path) -> None:
    theirs = [
        JvmWorker(tmp_path / f"jvm{n}", bootstrap, f"{group}-jvm{n}", properties=settings)
        for n, settings in enumerate(SETTINGS)
    ]
    answered = []
    async with AsyncExitStack() as stack:
        for jvm in theirs:
            stack.push_async_callback(asyncio.to_thread, jvm.stop)
        await asyncio.gather(*(asyncio.to_thread(jvm.start) for jvm in theirs))
        for n, (jvm, settings) in enumerate(zip(theirs, SETTINGS, strict=True)):
            async with running(worker_properties(bootstrap, f"{group}-{n}") | settings) as ours:
                for method, path in ASKED:
                    told = await asyncio.to_thread(jvm.ask, path, method)
                    answer = await request(ours, method, path)
                    assert (answer.status, answer.json) == (told.status, told.json), (settings, method, path)
                    answered.append(answer.status)
    assert answered == FORBIDDEN
