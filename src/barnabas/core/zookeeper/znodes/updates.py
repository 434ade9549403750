"""One znode that has changed, as the records that bring an image to what it says now.

Brokers hear of changes of configs, rules and tokens by notifications that name them; they read that znode alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.core.metadata.configs import ConfigResource, config_record
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import CLIENT_ID, USER, QuotaEntity, quota_record
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.scram import credential_record
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes import acls, clients, configs, tokens
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.configs import CONFIG, KINDS, Passwords
from barnabas.core.zookeeper.znodes.znode import DEFAULT_ENTITY, Znode
from barnabas.model.acl import ResourcePattern
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.wire.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord


def config_update(
    image: MetadataImage, path: str, znode: Znode | None, passwords: Passwords
) -> Iterator[VersionedRecord]:
    """Give the records for configs, quotas or credentials. path: below `/config`; znode: None when it is gone."""
    kind, _, name = path.partition("/")
    if kind in KINDS:
        resource = ConfigResource(KINDS[kind], "" if name == DEFAULT_ENTITY else name)
        found = [] if znode is None else list(configs.records(KINDS[kind], znode, passwords))
        now = {versioned.record.name: versioned.record.value for versioned in found}
        was = image.configs.get(resource)
        yield from (config_record(resource, key, None) for key in sorted(was) if key not in now)
        yield from (versioned for versioned in found if was.get(versioned.record.name) != versioned.record.value)
        return
    entity = clients.entity_at(Znode(f"{CONFIG}/{path}", b""))
    after = replay(MetadataImage.EMPTY, [] if znode is None else clients.records(znode))
    yield from _quotas(image, after, entity)
    names = {part.type: part.name for part in entity}
    user = names.get(USER)
    if user is not None and CLIENT_ID not in names:
        yield from _credentials(image, after, user)


def _quotas(image: MetadataImage, after: MetadataImage, entity: QuotaEntity) -> Iterator[VersionedRecord]:
    was, now = image.client_quotas.get(entity), after.client_quotas.get(entity)
    yield from (quota_record(entity, key, None) for key in sorted(was) if key not in now)
    yield from (quota_record(entity, key, value) for key, value in sorted(now.items()) if was.get(key) != value)


def _credentials(image: MetadataImage, after: MetadataImage, user: str) -> Iterator[VersionedRecord]:
    for mechanism in clients.MECHANISMS:
        was, now = image.scram.get(mechanism, user), after.scram.get(mechanism, user)
        if now is not None and now != was:
            yield credential_record(mechanism, user, now)
        elif now is None and was is not None:
            yield VersionedRecord(RemoveUserScramCredentialRecord(name=user, mechanism=mechanism), 0)


def rules_update(rules: RulesByPattern, pattern: ResourcePattern, znode: Znode | None) -> Iterator[VersionedRecord]:
    """Give the records for the rules of one pattern. rules: of the image so far; znode: None when it is gone."""
    was = rules.ids_of(pattern)
    found = [] if znode is None else list(acls.records(znode))
    now = {versioned.record.id for versioned in found}
    for acl_id in sorted(was - now):
        yield VersionedRecord(RemoveAccessControlEntryRecord(id=acl_id), 0)
    yield from (versioned for versioned in found if versioned.record.id not in was)


def token_update(image: MetadataImage, token_id: str, znode: Znode | None) -> Iterable[VersionedRecord]:
    """Give the record for a token. znode: None when it is gone."""
    if znode is not None:
        return tokens.records(znode)
    if token_id not in image.tokens.by_id:
        return ()
    return (VersionedRecord(RemoveDelegationTokenRecord(token_id=token_id), 0),)
