"""Delegation tokens: who may use each and until when (KIP-48). What proves a token is in no znode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.core.metadata.tokens import DelegationToken, token_record
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes.znode import Fields, Znode, ZnodeError, desanitized, json_of, sanitized
from barnabas.model.principal import KafkaPrincipal

ROOT: Final = "/delegation_token"
TOKENS: Final = f"{ROOT}/tokens"
CHANGES: Final = f"{ROOT}/token_changes"
_VERSION: Final = 3


def path(token_id: str) -> str:
    """Give where a token stands."""
    return f"{TOKENS}/{token_id}"


def token(token: DelegationToken) -> bytes:
    """Give what the znode of a token holds."""
    return json_of(
        {
            "owner": sanitized(str(token.owner)),
            "tokenRequester": sanitized(str(token.requester)),
            "renewers": [sanitized(str(renewer)) for renewer in token.renewers],
            "issueTimestamp": token.issue_timestamp,
            "maxTimestamp": token.max_timestamp,
            "expiryTimestamp": token.expiry_timestamp,
            "tokenId": token.id,
            "version": _VERSION,
        }
    )


def records(znode: Znode) -> Iterator[VersionedRecord]:
    """Give the record that sets the token; none for a znode without data."""
    if not znode.data:
        return
    fields = Fields(znode)
    version = fields.version(_VERSION)
    try:
        owner = KafkaPrincipal.parse(desanitized(fields.text("owner")))
        asked = KafkaPrincipal.parse(desanitized(fields.text("tokenRequester"))) if version == _VERSION else owner
        renewers = tuple(KafkaPrincipal.parse(desanitized(text)) for text in fields.texts("renewers"))
    except ZnodeError:
        raise
    except ValueError as e:
        raise ZnodeError(znode.path, str(e)) from None
    times = (fields.whole("issueTimestamp"), fields.whole("maxTimestamp"), fields.whole("expiryTimestamp"))
    yield token_record(DelegationToken(fields.text("tokenId"), owner, asked, renewers, *times))
