"""What of a folder counts as the lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.demo import lake
from barnabas.demo.folder import Folder


def test_only_what_is_in_place_counts(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert lake.rows(folder) == 0
    some = pa.table({"flight_id": pa.array([1, 2], pa.int32())})
    for place in ("month=1", "month=2", "_connect/flights-to-lake/staging/0.x.1/month=1"):
        (folder.lake / place).mkdir(parents=True)
        pq.write_table(some, folder.lake / place / "part-0.snappy.parquet")
    (folder.lake / "month=1" / ".part-0.snappy.parquet.crc").write_bytes(b"crc")
    (folder.lake / "_connect" / "commit.json").write_text("{}")
    assert lake.rows(folder) == 4
    assert sorted(map(tuple, lake.read(folder)[["flight_id", "month"]].to_numpy())) == [(1, 1), (1, 2), (2, 1), (2, 2)]
