"""The znodes of a Kafka cluster, as one table: the layout of Kafka 3.9, whom each is for, and how long it stays.

Paths are below the chroot, and start with a slash. A part in angle brackets stands for any one name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class ZnodeKind:
    """One row: the znodes whose path is as the pattern says.

    covered: its ACL is Kafka's business, by `zookeeper.set.acl` and by the migration tool. secret: it or what is below
    it holds what only the cluster may read. ephemeral: it ends with its maker's session. sequential: ZooKeeper numbers
    it. filled: whoever makes it writes it in the same step; one without data stops those who read it.
    """

    pattern: str
    covered: bool = True
    secret: bool = False
    ephemeral: bool = False
    sequential: bool = False
    filled: bool = False


ZNODES: Final = (
    ZnodeKind("/admin"),
    ZnodeKind("/admin/delete_topics"),
    ZnodeKind("/admin/delete_topics/<topic>"),
    ZnodeKind("/admin/preferred_replica_election", filled=True),
    ZnodeKind("/admin/reassign_partitions", filled=True),
    ZnodeKind("/brokers"),
    ZnodeKind("/brokers/ids"),
    ZnodeKind("/brokers/ids/<broker>", ephemeral=True, filled=True),
    ZnodeKind("/brokers/seqid"),
    ZnodeKind("/brokers/topics"),
    ZnodeKind("/brokers/topics/<topic>", filled=True),
    ZnodeKind("/brokers/topics/<topic>/partitions"),
    ZnodeKind("/brokers/topics/<topic>/partitions/<partition>"),
    ZnodeKind("/brokers/topics/<topic>/partitions/<partition>/state", filled=True),
    ZnodeKind("/cluster"),
    ZnodeKind("/cluster/id", filled=True),
    ZnodeKind("/config"),
    ZnodeKind("/config/brokers", secret=True),
    ZnodeKind("/config/brokers/<broker>", secret=True, filled=True),
    ZnodeKind("/config/changes"),
    ZnodeKind("/config/changes/config_change_<number>", sequential=True, filled=True),
    ZnodeKind("/config/clients"),
    ZnodeKind("/config/clients/<client>", filled=True),
    ZnodeKind("/config/ips"),
    ZnodeKind("/config/ips/<ip>", filled=True),
    ZnodeKind("/config/topics"),
    ZnodeKind("/config/topics/<topic>", filled=True),
    ZnodeKind("/config/users", secret=True),
    ZnodeKind("/config/users/<user>", secret=True),
    ZnodeKind("/config/users/<user>/clients", secret=True),
    ZnodeKind("/config/users/<user>/clients/<client>", secret=True, filled=True),
    ZnodeKind("/consumers", covered=False),
    ZnodeKind("/controller", ephemeral=True, filled=True),
    ZnodeKind("/controller_epoch", filled=True),
    ZnodeKind("/delegation_token"),
    ZnodeKind("/delegation_token/token_changes"),
    ZnodeKind("/delegation_token/token_changes/token_change_<number>", sequential=True, filled=True),
    ZnodeKind("/delegation_token/tokens", secret=True),
    ZnodeKind("/delegation_token/tokens/<token>", secret=True, filled=True),
    ZnodeKind("/feature", filled=True),
    ZnodeKind("/isr_change_notification"),
    ZnodeKind("/isr_change_notification/isr_change_<number>", sequential=True, filled=True),
    ZnodeKind("/kafka-acl"),
    ZnodeKind("/kafka-acl/<type>"),
    ZnodeKind("/kafka-acl/<type>/<resource>", filled=True),
    ZnodeKind("/kafka-acl-changes"),
    ZnodeKind("/kafka-acl-changes/acl_changes_<number>", sequential=True, filled=True),
    ZnodeKind("/kafka-acl-extended"),
    ZnodeKind("/kafka-acl-extended/prefixed"),
    ZnodeKind("/kafka-acl-extended/prefixed/<type>"),
    ZnodeKind("/kafka-acl-extended/prefixed/<type>/<resource>", filled=True),
    ZnodeKind("/kafka-acl-extended-changes"),
    ZnodeKind("/kafka-acl-extended-changes/acl_changes_<number>", sequential=True, filled=True),
    ZnodeKind("/latest_producer_id_block"),
    ZnodeKind("/log_dir_event_notification"),
    ZnodeKind("/log_dir_event_notification/log_dir_event_<number>", sequential=True, filled=True),
    ZnodeKind("/migration", filled=True),
)
"""Every kind of znode, a parent before its children."""

ROOT: Final = "/"
SECURE_ROOTS: Final = tuple(kind.pattern for kind in ZNODES if kind.covered and kind.pattern.count("/") == 1)
"""The tops of what the migration tool covers: all of it lies at or below one of them."""
FILLED_ROOTS: Final = tuple(kind.pattern for kind in ZNODES if kind.filled and kind.pattern in SECURE_ROOTS)
"""The tops that hold data themselves: empty ones stop brokers, or a migration to KRaft."""
CREATED_ROOTS: Final = (*(path for path in SECURE_ROOTS if path not in FILLED_ROOTS), "/kafka-acl-extended/prefixed")
"""What the tool makes where it is missing: the tops that are empty anyway, a parent before its child."""
COME_AND_GO: Final = ("/controller", "/migration")
"""The tops that a healthy cluster may be without: it has stopped, or is not on its way to KRaft."""
SECRET_ROOTS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
CONSUMERS: Final = "/consumers"
_VARIABLE: Final = re.compile("<[a-z]+>")


def kind_of(path: str) -> ZnodeKind | None:
    """Give the row for a path; None for `/` and for what Kafka does not make."""
    return next((kind for kind, matches in _patterns(path.count("/")) if matches(path)), None)


def is_covered(path: str) -> bool:
    """Say whether the tool sets the ACL of this path: `/` and all at or below the tops, known to the table or not."""
    return path == ROOT or f"/{path.split('/', 2)[1]}" in SECURE_ROOTS


def is_secret(path: str) -> bool:
    """Say whether only the cluster may read it. As Kafka has it, by the beginning of the path: `/config/users2` too."""
    return path.startswith(SECRET_ROOTS)


def child(parent: str, name: str) -> str:
    """Give the path of a child."""
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def parent(path: str) -> str:
    """Give the path of the parent; of `/` it is `/`."""
    return path.rpartition("/")[0] or ROOT


@cache
def _patterns(depth: int) -> list[tuple[ZnodeKind, Callable[[str], object]]]:
    return [(kind, _matcher(kind.pattern)) for kind in ZNODES if kind.pattern.count("/") == depth]


def _matcher(pattern: str) -> Callable[[str], object]:
    return re.compile(_VARIABLE.sub("[^/]+", pattern)).fullmatch
