"""Spark's checkpoint of a streaming query: taken apart for the offsets topic, and put together again from it.

A checkpoint names, for each batch, where every source of the query ends (`offsets/<batch>`), and which batches are
done (`commits/<batch>`). What a restart needs of it is one finished batch that ends where the last one did.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.connect.connector import ConnectError

VERSION: Final = "v1"
ONE: Final = "offset"
MANY: Final = "offsets"
_NO_OFFSET: Final = "-"


def location(checkpoint: Path) -> str:
    """Give the folder as Spark takes it: a URI in which nothing is escaped, for Hadoop's paths undo no escapes."""
    return f"file://{checkpoint.absolute()}"


def end_of(checkpoint: Path, batch_id: int) -> list[str | None]:
    """Give where each source of a query ends in a batch that has begun, as the source's own text."""
    version, _, *offsets = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    if version != VERSION:
        raise ConnectError(f"Spark writes checkpoints of version {version}, and {VERSION} is what is known here")
    return [None if text == _NO_OFFSET else text for text in offsets]


def build(checkpoint: Path, offsets: Sequence[str | None]) -> None:
    """Write a checkpoint by which a query goes on from these offsets."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    state = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    lines = [VERSION, json.dumps(state), *(_NO_OFFSET if text is None else text for text in offsets)]
    (checkpoint / "offsets" / "0").write_text("\n".join(lines))
    (checkpoint / "commits" / "0").write_text("\n".join([VERSION, json.dumps({"nextBatchWatermarkMs": 0})]))


def to_offset(offsets: Sequence[str | None]) -> dict[str, Any]:
    """Give what goes to the offsets topic: the source's JSON as it is, a list of them if there are several."""
    values = [None if text is None else _value(text) for text in offsets]
    return {ONE: values[0]} if len(values) == 1 else {MANY: values}


def from_offset(offset: dict[str, Any]) -> list[str | None]:
    """Give the sources' texts back; ConnectError when it is none that `to_offset` gives."""
    if set(offset) == {ONE}:
        values = [offset[ONE]]
    elif set(offset) == {MANY} and isinstance(offset[MANY], list):
        values = offset[MANY]
    else:
        raise ConnectError(f"the offset that is kept, {offset}, is none of a streaming source")
    return [None if value is None else _text(value) for value in values]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
