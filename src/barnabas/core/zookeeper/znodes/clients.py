"""What is set for users, clients and addresses: quotas, and with users their SCRAM credentials in the same znode."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Final

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import CLIENT_ID, IP, USER, EntityPart, QuotaEntity, entity_of, quota_record
from barnabas.core.metadata.scram import ScramCredential, ScramMechanism, credential_record
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes.configs import CONFIG, properties, read_properties
from barnabas.core.zookeeper.znodes.znode import Znode, ZnodeError, entity, entity_name

USERS: Final = f"{CONFIG}/users"
CLIENTS: Final = f"{CONFIG}/clients"
IPS: Final = f"{CONFIG}/ips"
_KINDS: Final = {"users": USER, "clients": CLIENT_ID, "ips": IP}
MECHANISMS: Final = tuple(m for m in ScramMechanism if m is not ScramMechanism.UNKNOWN)
_WHOLE: Final = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")
"""Quotas that Kafka takes for whole numbers, and writes without a decimal point."""


def entity_path(quota_entity: QuotaEntity) -> str | None:
    """Give the path below `/config` of what is set for an entity; None for one that ZooKeeper has no place for."""
    parts = {part.type: entity(part.name) for part in quota_entity}
    match sorted(parts):
        case ["client-id", "user"]:
            return f"users/{parts[USER]}/clients/{parts[CLIENT_ID]}"
        case ["user"]:
            return f"users/{parts[USER]}"
        case ["client-id"]:
            return f"clients/{parts[CLIENT_ID]}"
        case ["ip"]:
            return f"ips/{parts[IP]}"
        case _:
            return None


def user(name: str) -> QuotaEntity:
    """Give the entity whose znode holds a user's credentials."""
    return (EntityPart(USER, name),)


def holdings(image: MetadataImage, quota_entity: QuotaEntity) -> bytes:
    """Give what the znode of an entity holds: its quotas, and a user's credentials."""
    found = {key: _number(key, value) for key, value in sorted(image.client_quotas.get(quota_entity).items())}
    match quota_entity:
        case (EntityPart(type="user", name=str(name)),):
            for mechanism in MECHANISMS:
                credential = image.scram.get(mechanism, name)
                if credential is not None:
                    found[mechanism.mechanism_name] = _credential_text(credential)
    return properties(found)


def entity_at(znode: Znode) -> QuotaEntity:
    """Give the entity that a znode's path stands for; ZnodeError when it stands for none."""
    parts = znode.path.removeprefix(f"{CONFIG}/").split("/")
    if len(parts) not in (2, 4) or any(kind not in _KINDS for kind in parts[::2]):
        raise ZnodeError(znode.path, "no entity has such a path")
    return entity_of({_KINDS[kind]: entity_name(name) for kind, name in zip(parts[::2], parts[1::2], strict=True)})


def records(znode: Znode) -> Iterator[VersionedRecord]:
    """Give the records for what is set in a znode below `/config/users`, `clients` or `ips`."""
    quota_entity = entity_at(znode)
    names = {part.type: part.name for part in quota_entity}
    found = read_properties(znode)
    for mechanism in MECHANISMS:
        text = found.pop(mechanism.mechanism_name, None)
        name = names.get(USER)
        if text is not None and name is not None and len(names) == 1:
            yield credential_record(mechanism, name, _credential(znode, text))
    for key, text in sorted(found.items()):
        try:
            yield quota_record(quota_entity, key, float(text))
        except ValueError:
            raise ZnodeError(znode.path, f"{key} is not a number") from None


def _number(key: str, value: float) -> str:
    return str(round(value)) if key in _WHOLE else repr(float(value))


def _credential_text(credential: ScramCredential) -> str:
    keys: Mapping[str, bytes] = {
        "salt": credential.salt,
        "stored_key": credential.stored_key,
        "server_key": credential.server_key,
    }
    texts = [f"{name}={b64encode(key).decode()}" for name, key in keys.items()]
    return ",".join([*texts, f"iterations={credential.iterations}"])


def _credential(znode: Znode, text: str) -> ScramCredential:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        return ScramCredential(
            salt=b64decode(fields["salt"], validate=True),
            stored_key=b64decode(fields["stored_key"], validate=True),
            server_key=b64decode(fields["server_key"], validate=True),
            iterations=int(fields["iterations"]),
        )
    except (KeyError, ValueError):
        raise ZnodeError(znode.path, "holds a SCRAM credential that cannot be read") from None  # and is never shown
