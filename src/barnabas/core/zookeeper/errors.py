"""What ZooKeeper refuses, and what becomes of a session, as exceptions that say what to do."""

from __future__ import annotations

from typing import ClassVar, Final


class ZooKeeperError(Exception):
    """Something asked of ZooKeeper was not done.

    path: of the znode, below the chroot; empty when it is about the session. code: the protocol's number.
    """

    code: ClassVar[int] = 0
    words: ClassVar[str] = "ZooKeeper refused"

    def __init__(self, path: str = "", detail: str = "") -> None:
        self.path = path
        self.detail = detail
        what = detail or self.words
        super().__init__(f"{path}: {what}" if path else what)


class NoNodeError(ZooKeeperError):
    """There is no such znode, or, on create, not its parent."""

    code = -101
    words = "no such znode"


class NoAuthError(ZooKeeperError):
    """The znode's ACL does not allow it to who we are."""

    code = -102
    words = "its ACL does not allow this to the user of this session; log in as the one who made it, or ask for a right"


class BadVersionError(ZooKeeperError):
    """Somebody else has changed the znode since it was read."""

    code = -103
    words = "changed meanwhile; read it again"


class NoChildrenForEphemeralsError(ZooKeeperError):
    """An ephemeral znode has no children."""

    code = -108
    words = "the parent is ephemeral and has no children"


class NodeExistsError(ZooKeeperError):
    """There is such a znode already."""

    code = -110
    words = "exists already"


class NotEmptyError(ZooKeeperError):
    """A znode with children cannot be deleted."""

    code = -111
    words = "has children; delete them first"


class SessionExpiredError(ZooKeeperError):
    """The session is gone, with its ephemeral znodes and watches; the client makes another one by itself."""

    code = -112
    words = "the session has expired; what was asked was not done. Another session follows: begin anew there"


class InvalidAclError(ZooKeeperError):
    """The ACL is empty or malformed, or says `auth` where nobody has logged in."""

    code = -114
    words = "not an ACL that ZooKeeper takes; an entry for 'auth' needs a session that has logged in"


class AuthFailedError(ZooKeeperError):
    """The login at ZooKeeper failed."""

    code = -115
    words = "the login at ZooKeeper failed"


class LoginRequiredError(ZooKeeperError):
    """The ensemble serves nobody who has not logged in, and we have not."""

    code = -124
    words = (
        "ZooKeeper wants a login from everybody: set java.security.auth.login.config to a JAAS file "
        "with a section 'Client'"
    )


class QuotaExceededError(ZooKeeperError):
    """A quota that is set on the path has been reached."""

    code = -125
    words = "the quota on this path is used up"


class ConnectionLossError(ZooKeeperError):
    """The connection went while the answer was outstanding, or none came about in time.

    In the first case a change may have been made or not: look before doing it again.
    """

    code = -4
    words = "the connection to ZooKeeper was lost; a change may have been made or not, look before doing it again"


class ClosedError(ZooKeeperError):
    """The client has been closed by its owner."""

    words = "the ZooKeeper client is closed"


class RequestRefusedError(ZooKeeperError):
    """ZooKeeper gave an error that has no class of its own; the text holds its number."""


_BY_CODE: Final[dict[int, type[ZooKeeperError]]] = {
    kind.code: kind
    for kind in (
        NoNodeError, NoAuthError, BadVersionError, NoChildrenForEphemeralsError, NodeExistsError, NotEmptyError,
        SessionExpiredError, InvalidAclError, AuthFailedError, LoginRequiredError, QuotaExceededError,
        ConnectionLossError,
    )
}  # fmt: skip


def error_for(code: int, path: str = "") -> ZooKeeperError:
    """Give the exception for an error number of the protocol."""
    kind = _BY_CODE.get(code)
    return RequestRefusedError(path, f"ZooKeeper refused with its error {code}") if kind is None else kind(path)
