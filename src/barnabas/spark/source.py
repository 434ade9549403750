"""`format("barnabas")`: what Spark asks first. Options are checked here, so that a slip shows before anything runs."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from barnabas.spark.batch_reader import BatchReader
from barnabas.spark.offsets import OptionError
from barnabas.spark.options import parse_read_options, parse_write_options, wants_headers
from barnabas.spark.schema import check_write_schema, read_schema
from barnabas.spark.stream_reader import StreamReader
from barnabas.spark.writer import BatchWriter, StreamWriter

FORMAT = "barnabas"


class BarnabasDataSource(DataSource):
    """Reads and writes topics of Barnabas and of Apache Kafka, batch and streaming."""

    @classmethod
    def name(cls) -> str:
        """Give the name that `format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the columns of a read."""
        return read_schema(headers=wants_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give a batch read."""
        return BatchReader(parse_read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Give a streaming read."""
        return StreamReader(parse_read_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Give a batch write, which can only append."""
        if overwrite:
            raise OptionError('a topic cannot be overwritten; use mode("append")')
        options = parse_write_options(self.options)
        check_write_schema(schema, options.topic)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Give a streaming write. Its output mode does not matter: every row that arrives is appended."""
        options = parse_write_options(self.options)
        check_write_schema(schema, options.topic)
        return StreamWriter(options)
