"""The same servers as for all tests with ZooKeeper."""

from tests.zookeeper.conftest import chroot, zookeeper

__all__ = ["chroot", "zookeeper"]
