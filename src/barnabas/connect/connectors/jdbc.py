"""A database by JDBC: settings, Spark's reader and writer for it, and transactions from the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connector import ConnectError, RetriableError
from barnabas.connect.connectors.settings import options_of
from barnabas.model.config import REQUIRED, ConfigKey, ConfigType, Importance, not_empty

URL: Final = ConfigKey(
    "url", ConfigType.STRING, REQUIRED, "Where the database is: jdbc:...", Importance.HIGH, validator=not_empty
)
USER: Final = ConfigKey("user", ConfigType.STRING, None, "Who to log in as.")
PASSWORD: Final = ConfigKey("password", ConfigType.PASSWORD, None, "The password of that user.")
TABLE: Final = ConfigKey(
    "table", ConfigType.STRING, REQUIRED, "The table, as SQL names it.", Importance.HIGH, validator=not_empty
)

_BIGINT: Final = -5
"""Of java.sql.Types."""
_PASSING: Final = ("SQLTransient", "SQLRecoverable", "SQLNonTransientConnection")
"""Kinds of SQLException that a later try may not meet."""


class Database:
    """The database of a connector's configuration: `url`, `user`, `password` and Spark's own `options.*`."""

    def __init__(self, spark: SparkSession, config: Mapping[str, Any]) -> None:
        self._spark = spark
        self._jvm: Any = getattr(spark, "_jvm")  # noqa: B009 - it has no types
        self._options = options_of(config)
        self._options["url"] = config["url"]
        if config["user"] is not None:
            self._options["user"] = config["user"]
        if config["password"] is not None:
            self._options["password"] = config["password"].secret
        self._dialect = self._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(config["url"])

    def read(self, table: str) -> DataFrame:
        """Give a table as it is; what is asked of the frame goes to the database as far as Spark knows how."""
        return self._spark.read.format("jdbc").options(**self._options, dbtable=table).load()

    def write(self, frame: DataFrame, table: str, mode: str) -> None:
        """Write rows, a transaction for each partition; the table is made if there is none."""
        options = {**self._options, "dbtable": table, "truncate": "true"}
        frame.write.format("jdbc").options(**options).mode(mode).save()

    def quoted(self, column: str) -> str:
        """Give a column's name as this database's SQL has it."""
        return str(self._dialect.quoteIdentifier(column))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Do things all or nothing."""
        connection = self._connect()
        try:
            connection.setAutoCommit(False)
            try:
                yield Transaction(connection)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
        finally:
            connection.close()

    def _connect(self) -> Any:
        python = self._jvm.org.apache.spark.api.python.PythonUtils
        given = python.toScalaMap({**self._options, "dbtable": "unused"})
        options = self._jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(given)
        return self._dialect.createConnectionFactory(options).apply(-1)


class Transaction:
    """Statements with `?` for values: texts, numbers, and None for a number that is not there."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: str | int | None) -> int:
        """Run a statement; give how many rows it changed."""
        statement = self._prepared(sql, values)
        try:
            return int(statement.executeUpdate())
        finally:
            statement.close()

    def query(self, sql: str, *values: str | int | None) -> list[list[Any]]:
        """Give the rows of a query."""
        statement = self._prepared(sql, values)
        try:
            found = statement.executeQuery()
            width = found.getMetaData().getColumnCount()
            rows = []
            while found.next():
                rows.append([found.getObject(column + 1) for column in range(width)])
            return rows
        finally:
            statement.close()

    def has_table(self, name: str) -> bool:
        """Say whether there is a table of a name, however its letters are written."""
        tables = self._connection.getMetaData().getTables(None, None, "%", None)
        while tables.next():
            if str(tables.getString("TABLE_NAME")).lower() == name.lower():
                return True
        return False

    def _prepared(self, sql: str, values: Sequence[str | int | None]) -> Any:
        statement = self._connection.prepareStatement(sql)
        for number, value in enumerate(values, 1):
            if value is None:
                statement.setNull(number, _BIGINT)
            elif isinstance(value, int):
                statement.setLong(number, value)
            else:
                statement.setString(number, value)
        return statement


@contextmanager
def explained() -> Iterator[None]:
    """Tell what a later try may not meet from what is wrong for good."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        text = str(error)
        # Java's stack stands in the trace of the cause: once is enough.
        said = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else text
        if any(kind in text for kind in _PASSING):
            raise RetriableError(said) from error
        raise ConnectError(said) from error
