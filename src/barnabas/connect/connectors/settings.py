"""Settings that several connectors have, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from barnabas.model.config import REQUIRED, ConfigKey, ConfigType, Importance

OPTIONS: Final = "options."
"""Before the name of an option that Spark's reader or writer takes."""
_PLAIN: Final = "key, value, topic, partition, offset, timestamp"
NAME: Final = ConfigKey("name", ConfigType.STRING, REQUIRED, "The connector's name.", Importance.HIGH)
SELECT: Final = ConfigKey(
    "select",
    ConfigType.STRING,
    None,
    "What of a batch to write, as Spark's SQL has it after SELECT. Unless it is set, the fields of the value, "
    f"or, where it has none, {_PLAIN}.",
)


def options_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Give the options for Spark that a configuration has, by their names there."""
    return {key.removeprefix(OPTIONS): text for key, text in config.items() if key.startswith(OPTIONS)}


def selected(batch: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Give what of a batch is to be written, as `select` says."""
    what = config[SELECT.name]
    if what is None:
        what = "value.*" if isinstance(batch.schema["value"].dataType, StructType) else _PLAIN
    return batch.sparkSession.sql(f"SELECT {what} FROM {{batch}}", batch=batch)
