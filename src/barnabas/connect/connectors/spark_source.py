"""SparkSource: any streaming source of Spark's into a topic, by its format's name and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connector import Source
from barnabas.connect.connectors.settings import options_of
from barnabas.model.config import REQUIRED, ConfigKey, ConfigTable, ConfigType, Importance, not_empty

FILE_FORMATS: Final = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml", "binaryfile"})
"""Their streams remember in Spark's checkpoint which files they have seen, which no offset tells."""


class SparkSource(Source):
    """Reads a stream, at least once. Its offsets are Spark's, kept in the offsets topic."""

    VERSION: ClassVar[str] = "1.0"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        ConfigKey("format", ConfigType.STRING, REQUIRED, "Spark's name of the format to read.", Importance.HIGH),
        ConfigKey("topic", ConfigType.STRING, REQUIRED, "The topic to write to.", Importance.HIGH, validator=not_empty),
        ConfigKey("schema", ConfigType.STRING, None, "Columns and types of the source, where it must be told."),
        ConfigKey(
            "select",
            ConfigType.STRING,
            "struct(*) AS value",
            "What to write, as Spark's SQL has it after SELECT: value, and key, topic, partition, headers if wanted.",
        ),
    )

    def validate(self) -> Mapping[str, str]:
        """Refuse what could not be resumed."""
        if self.config["format"].lower() in FILE_FORMATS:
            return {"format": "want a source whose offsets say all: streams of files know by Spark's checkpoint alone"}
        return {}

    def read(self, spark: SparkSession) -> DataFrame:
        """Give the stream."""
        reader = spark.readStream.format(self.config["format"]).options(**options_of(self.config))
        if self.config["schema"]:
            reader = reader.schema(self.config["schema"])
        return spark.sql(f"SELECT {self.config['select']} FROM {{stream}}", stream=reader.load())
