"""What ZooKeeper tells of a znode, and what can be asked of it, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntFlag, auto
from typing import Final

ANY_VERSION: Final = -1
"""As a version: whichever there is."""


class Permission(IntFlag):
    """What an entry of an ACL allows; the bits are the protocol's. ADMIN is to change the ACL."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31

    @property
    def letters(self) -> str:
        """Give the letters that ZooKeeper's shell shows and takes: `cdrwa` for ALL."""
        order = (Permission.CREATE, Permission.DELETE, Permission.READ, Permission.WRITE, Permission.ADMIN)
        return "".join(letter for letter, one in zip("cdrwa", order, strict=True) if one in self)


@dataclass(frozen=True, slots=True, order=True)
class ZnodeId:
    """Who somebody is to ZooKeeper: `world:anyone`, `sasl:kafka`, `x509:CN=broker`."""

    scheme: str
    id: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.id}"


@dataclass(frozen=True, slots=True)
class ZnodeAcl:
    """One entry of a znode's ACL. Scheme `auth` with an empty id is, on the way to ZooKeeper, whoever asks."""

    permissions: Permission
    scheme: str
    id: str

    @property
    def who(self) -> ZnodeId:
        """Whom the entry is for."""
        return ZnodeId(self.scheme, self.id)

    def __str__(self) -> str:
        return f"{self.scheme}:{self.id}:{self.permissions.letters}"


ANYONE: Final = ZnodeId("world", "anyone")
OPEN_ACLS: Final = (ZnodeAcl(Permission.ALL, "world", "anyone"),)
"""Everything for everybody."""
READABLE: Final = ZnodeAcl(Permission.READ, "world", "anyone")
CREATOR_ALL: Final = ZnodeAcl(Permission.ALL, "auth", "")
"""All rights for every id that who asks has logged in with; InvalidAclError when it has none."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What ZooKeeper keeps beside a znode's data. Times are wall clock ms; zxids are ids of transactions.

    version: of the data; children_version: changes of the list of children; acl_version: of the ACL;
    ephemeral_owner: the id of the session that the znode ends with, 0 for one that stays.
    """

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    children_version: int
    acl_version: int
    ephemeral_owner: int
    data_bytes: int
    children: int
    pzxid: int


@dataclass(frozen=True, slots=True)
class Create:
    """Make a znode, one of the operations of `multi`; answered by its path. data: None is other than empty."""

    path: str
    data: bytes | None
    acls: tuple[ZnodeAcl, ...]
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Write a znode's data; answered by its Stat."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a znode without children; answered by None."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Refuse the whole `multi` unless the znode is there, with this version; answered by None."""

    path: str
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | Check
Result = str | Stat | None


class WatchKind(Enum):
    """What happened to what was watched; the numbers are the protocol's."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A watch has come true, and is over: look again, and watch anew. path: below the chroot."""

    kind: WatchKind
    path: str


Watch = Callable[[WatchEvent], None]


class SessionState(Enum):
    """How a session stands.

    CONNECTED: it is usable, after every connection that is made, the first one too. SUSPENDED: no connection; the
    session and its ephemeral znodes may live or be gone. EXPIRED: it is gone, with its ephemeral znodes and its
    watches; another one is on its way, and CONNECTED will say so. LOGIN_FAILED: ZooKeeper does not know who we are:
    either no connection came about, and another try follows, or the one that CONNECTED announces next is anonymous.
    CLOSED: by its owner.
    """

    CONNECTED = auto()
    SUSPENDED = auto()
    EXPIRED = auto()
    LOGIN_FAILED = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A change of a session's state. session_id: 0 while there is none; detail: for people, may be empty."""

    state: SessionState
    session_id: int
    detail: str = ""
