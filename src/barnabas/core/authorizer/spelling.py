"""Principals and hosts that a rule spells in another way than the authorizer will see them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Final, NamedTuple

from barnabas.model.acl import WILDCARD, WILDCARD_PRINCIPAL
from barnabas.model.addresses import host_text, is_address

_DIVIDERS: Final = re.compile(r"(?<!\\)[,;+]")
"""What stands between the parts of a certificate's name, unless it is escaped."""


def folded(principal: str) -> str:
    """Give what is left of a principal without case, spaces, Unicode's forms and the order of a certificate's name.

    Two spellings of one name fold alike: `User:CN=Web, O=Ex` and `User:o=ex,cn=web`.
    """
    kind, _, name = unicodedata.normalize("NFKC", principal).partition(":")
    parts = ["".join(part.split()) for part in _DIVIDERS.split(name)] if "=" in name else ["".join(name.split())]
    return f"{kind.strip()}:{','.join(sorted(parts))}".casefold()


class Known(NamedTuple):
    """A principal as it is known elsewhere. where: what knows it so, for people."""

    principal: str
    where: str


class Spellings:
    """How principals are spelled: by what has seen them, and by the rules themselves."""

    def __init__(self, seen: Mapping[str, str], rules: Mapping[str, int]) -> None:
        """seen: where each principal was seen; rules: how many rules name each principal."""
        self._seen = {WILDCARD_PRINCIPAL: "Kafka's word for everybody", **seen}
        self._known = _by_fold(self._seen)
        self._in_rules = _by_fold(rules)
        self._rules = rules

    def better(self, principal: str) -> Known | None:
        """Give the spelling that was probably meant; None when this one is as good as any."""
        if principal in self._seen:
            return None
        fold = folded(principal)
        if fold in self._known:
            known = min(self._known[fold])
            return Known(known, self._seen[known])
        most = min(self._in_rules.get(fold, [principal]), key=lambda one: (-self._rules.get(one, 0), one))
        return None if most == principal else Known(most, f"{self._rules[most]} of the rules")


def _by_fold(principals: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for principal in principals:
        found.setdefault(folded(principal), []).append(principal)
    return found


class WrongHost(NamedTuple):
    """Why a rule's host is never met, and what to write instead."""

    why: str
    advice: str


def wrong_host(host: str) -> WrongHost | None:
    """Say what is wrong with a rule's host; None for `*` and for an IP as Kafka compares it."""
    if host == WILDCARD:
        return None
    if is_address(host):
        compared = host_text(host)
        return None if compared == host else WrongHost(f"Kafka writes this address as {compared}", f"write {compared}")
    each = "make a rule for each address, or * with the network closed by other means"
    if _is_network(host):
        return WrongHost("a network is no address: hosts are compared as text, character by character", each)
    if WILDCARD in host:
        return WrongHost(f"{WILDCARD} stands for all hosts only when it is alone", each)
    return WrongHost("a host name is never looked up: what is compared is the client's IP", "write the client's IP")


def _is_network(host: str) -> bool:
    try:
        ip_network(host, strict=False)
    except ValueError:
        return False
    return True
