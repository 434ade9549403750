"""A realm of its own for each module, that the test's process lives in, and nodes in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .kdc import Kdc, by_key_table
from .nodes import KerberosNodes


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with pytest.MonkeyPatch.context() as patch, Kdc(tmp_path_factory.mktemp("kdc")) as found:
        for key, value in found.environment.items():
            patch.setenv(key, value)
        yield found


@pytest.fixture(scope="module")
def alice(kdc: Kdc) -> str:
    """Give the JAAS entry of somebody who may do everything."""
    return by_key_table(kdc.principal("alice"), "alice")


@pytest.fixture(scope="module")
def nodes(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosNodes]:
    with KerberosNodes(tmp_path_factory.mktemp("nodes"), kdc) as found:
        yield found
