"""What of Java's stands behind an exception that Python raised for it."""

from __future__ import annotations

from typing import Any, Final

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext

_IO_EXCEPTION: Final = "java.io.IOException"


def is_caused_by(error: BaseException, class_name: str) -> bool:
    """Say whether an exception of a class of Java's is behind this one; it may have come by way of an executor."""
    thrown: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while thrown is not None:
        if is_instance_of(SparkContext._gateway, thrown, class_name):
            return True
        thrown = thrown.getCause()
    return False


def is_storage_trouble(error: BaseException) -> bool:
    """Say whether a file system did not do its work: a full disk, a path that is gone."""
    return isinstance(error, OSError) or is_caused_by(error, _IO_EXCEPTION)
