"""What a broker tells its operator when forwarding fails: the cause, which clients see as -1 or 7 only, and a remedy.

The same complaint comes once in a while, however often there is cause, and says then how many were left out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from barnabas.core.forwarding.outcome import remedy
from barnabas.server.complaints import OnceInAWhile
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.server.forwarding.errands import Errand

log = structlog.get_logger("kafka.server.ForwardingManager")


class Complaints:
    """See the module. Nothing of a request's content is ever said."""

    def __init__(self) -> None:
        self._due = OnceInAWhile(time.monotonic)

    def envelope_refused(self, errand: Errand, error_code: int) -> None:
        """The controller answered an Envelope with an error of its own."""
        self._warn(
            (errand.row.key, error_code),
            "the controller refused an Envelope",
            errand,
            error=_name(error_code),
            remedy=remedy(error_code),
        )

    def unreadable(self, errand: Errand, why: str) -> None:
        """What the controller answered is no response to the request."""
        self._warn((errand.row.key, "unreadable"), "the controller's answer cannot be read", errand, why=why)

    def too_late(self, errand: Errand, controller: int | None) -> None:
        """No controller answered in time. controller: who leads, as far as is known."""
        self._warn(
            (errand.row.key, "late"),
            "forwarding timed out",
            errand,
            controller=controller,
            remedy="see whether the controllers run, agree on a leader, and can be reached from here",
        )

    def not_let_in(self, errand: Errand, why: str) -> None:
        """The controller does not accept this node's login."""
        self._warn(
            (errand.row.key, "login"),
            "the controller refuses the login of this node",
            errand,
            why=why,
            remedy="compare sasl.mechanism.controller.protocol and the jaas configuration with the controller's",
        )

    def not_served(self, errand: Errand, why: str) -> None:
        """The controller and this node share no version of what is to be sent."""
        self._warn(
            (errand.row.key, "version"), "the controller cannot be asked", errand, why=why, remedy="upgrade controllers"
        )

    def _warn(self, key: object, event: str, errand: Errand, **facts: object) -> None:
        left_out = self._due.due(key)
        if left_out is None:
            return
        if left_out:
            facts["left_out"] = left_out
        log.warning(event, api=errand.row.key.name, client_id=errand.client_id, **facts)


def _name(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return str(error_code)
