"""The leader's session keys: made when there is none, when one is old, and when it is not as this worker would have it.

KIP-507. Renewal is decided in `core.connect.session_keys`; a new leader goes on with the age of the key it finds.
"""

from __future__ import annotations

import secrets
from typing import Final

import structlog

from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.stores.configs import ConfigStore
from barnabas.core.connect.session_keys import KeySettings, SessionKey, renewal
from barnabas.core.connect.subprotocol import Subprotocol
from barnabas.model.ports import Clock

log = structlog.get_logger("kafka.connect.herder")

_FIRST_RETRY_MS: Final = 250
_LAST_RETRY_MS: Final = 60_000
_MOST_DOUBLINGS: Final = 8


class KeyRotation:
    """What the leader does about keys. next_check_ms: when to look again, by the wall clock; None for no need to."""

    def __init__(self, configs: ConfigStore, settings: KeySettings, clock: Clock) -> None:
        self._configs = configs
        self._settings = settings
        self._clock = clock
        self._failures = 0
        self.next_check_ms: int | None = None

    async def renew(self, agreed: Subprotocol) -> bool:
        """Hand out a new key where one is due; False when the config topic did not take it and must be read again."""
        now_ms = self._clock.now_ms()
        if self._failures and self.next_check_ms is not None and now_ms < self.next_check_ms:
            return True
        self.next_check_ms = None
        if not agreed.signs:
            return True
        found = renewal(self._configs.state.session_key, self._settings, now_ms)
        if found.due and not await self._hand_out(now_ms):
            return False
        self._failures = 0
        self.next_check_ms = renewal(self._configs.state.session_key, self._settings, now_ms).next_check_ms
        return True

    async def _hand_out(self, now_ms: int) -> bool:
        key = SessionKey(secrets.token_bytes(self._settings.size_bytes), self._settings.algorithm, now_ms)
        try:
            await self._configs.put_session_key(key)
        except WriteFailedError as e:
            wait_ms = min(_FIRST_RETRY_MS << self._failures, _LAST_RETRY_MS)
            self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
            self.next_check_ms = self._clock.now_ms() + wait_ms
            log.warning("a new session key could not be handed out", why=str(e), again_in_ms=wait_ms)
            return False
        log.info("handed out a new session key", algorithm=key.algorithm)
        return True
