"""Records that could not be converted or transformed stay in their batch, and a column says why.

The first failure of a record is the one that counts; steps after it leave the record as it is, so that whoever
handles failures finds it, with its original bytes if he has kept them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from .data.sql import literal, name

FAILURE: Final = "connect_failure"
"""The column: null for a record that is well, else a struct of the fields below, all of them strings."""
STAGE: Final = "stage"
CLASS_NAME: Final = "class_name"
EXCEPTION: Final = "exception"
MESSAGE: Final = "message"

DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"

_TYPE: Final = f"struct<{STAGE}: string, {CLASS_NAME}: string, {EXCEPTION}: string, {MESSAGE}: string>"


@dataclass(frozen=True, slots=True)
class Step:
    """Who is at work. stage: Kafka's word, as in `__connect.errors.stage`; class_name: who it is."""

    stage: str
    class_name: str


def with_failures(frame: DataFrame) -> DataFrame:
    """Give the frame with a column for failures, none of which has happened yet; the same one if it has it."""
    if FAILURE in frame.columns:
        return frame
    return frame.withColumn(FAILURE, expr(f"cast(NULL as {_TYPE})"))


def failure(step: Step, problem: str | None) -> str:
    """Give the SQL of the column after a step.

    problem: SQL of a text that is null where all went well; None when nothing can go wrong.
    """
    column = name(FAILURE)
    if problem is None:
        return column
    made = (
        f"named_struct('{STAGE}', {literal(step.stage)}, '{CLASS_NAME}', {literal(step.class_name)}, "
        f"'{EXCEPTION}', {literal(DATA_EXCEPTION)}, '{MESSAGE}', {problem})"
    )
    return f"coalesce({column}, CASE WHEN {problem} IS NOT NULL THEN {made} END)"
