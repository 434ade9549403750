"""Stores of credentials that tests name for PLAIN."""

from __future__ import annotations

from collections.abc import Mapping


class Reversed:
    """A password is the name backwards, and the suffix of the JAAS entry."""

    def configure(self, configs: Mapping[str, str], options: Mapping[str, str]) -> None:
        self._suffix = options.get("suffix", "")

    def authenticate(self, user: str, password: str) -> bool:
        if user == "broken":
            raise OSError("the vault is sealed")
        return password == user[::-1] + self._suffix


class Late:
    """Answers later, which is an answer too late."""

    async def authenticate(self, user: str, password: str) -> bool:
        return False


class Nothing:
    """Is no store."""
