"""Batches that are handed to a query, where it is not Spark that matters."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from barnabas.connect.spark.planned_query import PlannedQuery


class Kept(PlannedQuery):
    """Keeps what it is handed, and runs no batch by itself."""

    rows: Sequence[str] = ()

    def _hand_over(self, rows: Sequence[str]) -> None:
        self.rows = rows


async def test_a_batch_that_fails_when_nobody_waits_any_more_is_no_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def body(frame: DataFrame, batch_id: int) -> None:
        raise ValueError("too late")

    nothing: Any = None
    with ThreadPoolExecutor(1) as executor:
        query = Kept(nothing, "q", tmp_path, body=body, executor=executor)
        run = asyncio.create_task(query.run(["row"]))
        async with asyncio.timeout(60):
            while not query.rows:  # noqa: ASYNC110 - another thread hands them over
                await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        query._batch(nothing, 0)
        await asyncio.sleep(0)
    del query, run
    gc.collect()
    assert "never retrieved" not in caplog.text
