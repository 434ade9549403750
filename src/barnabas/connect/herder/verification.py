"""Whether requests between workers are signed: checking those that come in, and saying when that begins or ends."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from barnabas.connect.herder_port import InternalRequest
from barnabas.core.connect.session_keys import SessionKey
from barnabas.core.connect.signature import verify
from barnabas.core.connect.subprotocol import Subprotocol

log = structlog.get_logger("kafka.connect.herder")

_REMEDY = "set connect.protocol=sessioned, its default, in the file of every worker, and restart those that are changed"


class Verification:
    """KIP-507 on this worker. offered: the best subprotocol that it offers."""

    def __init__(self, offered: Subprotocol, permitted: Collection[str]) -> None:
        self._offered = offered
        self._permitted = permitted
        self._was: Subprotocol | None = None

    def at_start(self) -> None:
        """Warn of a worker that will keep its whole group from signing (C-29)."""
        if not self._offered.signs:
            log.warning(
                "requests between workers will not be verified in this cluster, and its internal REST endpoint is open "
                "to anybody who reaches it",
                because=f"connect.protocol is {self._offered.value} on this worker",
                remedy=_REMEDY,
            )

    def joined(self, agreed: Subprotocol) -> None:
        """Say what the group has agreed on, where that is new (C-28, C-30)."""
        if agreed is self._was:
            return
        if agreed.signs:
            log.info("requests between workers are verified in this group", protocol=agreed.value)
        elif self._offered.signs:
            log.warning(
                "requests between workers are not verified in this group, and its internal REST endpoint is open to "
                "anybody who reaches it",
                because=f"the group agreed on the protocol {agreed.value}: a worker of it offers nothing better",
                remedy=_REMEDY,
            )
        self._was = agreed

    def check(self, request: InternalRequest, agreed: Subprotocol, key: SessionKey | None) -> None:
        """Return when an internal request may be trusted; core.connect's InternalRequestError when not."""
        if agreed.signs:
            verify(request.headers, request.body, key, self._permitted)
