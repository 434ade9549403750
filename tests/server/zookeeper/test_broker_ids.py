"""The id that a broker's data directories keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.model.uuid import Uuid
from barnabas.server.zookeeper.broker_ids import kept_id
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.storage.meta_properties import MetaProperties, MetaPropertiesError, MetaVersion, write_meta_properties

ONE, TWO, BROKEN = Path("/one"), Path("/two"), Path("/broken")


def directories(**ids: int) -> MemoryFileSystem:
    """Give a disk on which directories belong to brokers of these ids, and one fails."""
    fs = MemoryFileSystem()
    for name, broker in ids.items():
        fs.make_dirs(Path(f"/{name}"))
        write_meta_properties(Path(f"/{name}"), MetaProperties("c", broker, None, MetaVersion.ZOOKEEPER), fs)
    fs.fault = lambda operation, path: OSError(5, "it is broken") if BROKEN in path.parents else None
    return fs


def test_the_first_directory_that_has_an_id_has_it() -> None:
    fs = directories(two=1007)
    assert kept_id([ONE, TWO], fs) == 1007
    assert kept_id([BROKEN, TWO], fs) == 1007
    assert kept_id([ONE], fs) is None


def test_no_second_id_for_a_broker_whose_disk_may_have_the_first() -> None:
    with pytest.raises(OSError, match="it is broken"):
        kept_id([BROKEN, ONE], directories())


def test_a_directory_of_kraft_is_no_brokers_here() -> None:
    fs = directories()
    fs.make_dirs(ONE)
    write_meta_properties(ONE, MetaProperties("c", 1, Uuid(b"\1" * 16), MetaVersion.KRAFT), fs)
    with pytest.raises(MetaPropertiesError, match="a directory of KRaft's"):
        kept_id([ONE], fs)
