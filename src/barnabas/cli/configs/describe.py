"""`barnabas configs --describe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.cli.configs.entities import QUOTAS, RESOURCES, Entity
from barnabas.cli.connection import run_admin
from barnabas.cli.tables import OutputFormat, show
from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType, ConfigSource
from barnabas.client.admin.users import ANY_NAME, USER, EntityMatch
from barnabas.client.config import ClientConfig
from barnabas.model.config import MASKED
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.describe_configs import DescribeConfigsResourceResult

_OWN_SOURCE = {
    ConfigResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigResourceType.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    ConfigResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
}


def describe(config: ClientConfig, entities: Sequence[Entity], *, everything: bool, output: OutputFormat) -> None:
    """Print the settings of the entities."""
    if entities[0].type in QUOTAS:
        rows = run_admin(config, lambda a: _quotas(a, entities), needs="DescribeConfigs on the cluster")
    else:
        entity = entities[0]
        rows = run_admin(config, lambda a: _configs(a, entity, everything), needs=f"DescribeConfigs on {entity}")
    about = ", ".join(str(e) for e in entities)
    hint = "" if everything or entities[0].type in QUOTAS else "; --all shows the defaults"
    own = "their" if any(e.name is None for e in entities) else "its"
    show(rows, output, empty=f"{about[:1].upper()}{about[1:]}: no settings of {own} own{hint}.")


async def _configs(admin: Admin, entity: Entity, everything: bool) -> list[dict[str, Any]]:
    kind = RESOURCES[entity.type]
    names = [entity.name] if entity.name is not None else await _names(admin, kind)
    resources = [ConfigResource(kind, name) for name in names]
    found = await admin.describe_configs(resources) if resources else {}
    rows = []
    for resource, configs in found.items():
        if isinstance(configs, ApiError):
            raise ApiError(configs.code, f"{Entity(entity.type, resource.name)}: {configs.message}")
        everything_here = everything or kind is ConfigResourceType.BROKER_LOGGER
        rows += [
            {
                "entity": resource.name or "<default>",
                "key": c.name,
                "value": MASKED if c.is_sensitive else c.value,
                "source": ConfigSource(c.config_source).name,
                "read_only": c.read_only,
            }
            for c in sorted(configs, key=lambda c: c.name)
            if everything_here or _is_own(c, resource)
        ]
    return rows


def _is_own(config: DescribeConfigsResourceResult, resource: ConfigResource) -> bool:
    if resource.type is ConfigResourceType.BROKER:
        wanted = ConfigSource.DYNAMIC_BROKER_CONFIG if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    else:
        wanted = _OWN_SOURCE[resource.type]
    return config.config_source == wanted


async def _names(admin: Admin, kind: ConfigResourceType) -> list[str]:
    if kind is ConfigResourceType.TOPIC:
        return sorted(await admin.topics())
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        default = [""] if kind is ConfigResourceType.BROKER else []
        return [*(str(n.id) for n in await admin.nodes()), *default]
    return await admin.list_config_resources(kind)


async def _quotas(admin: Admin, entities: Sequence[Entity]) -> list[dict[str, Any]]:
    matches = [EntityMatch(QUOTAS[e.type], ANY_NAME if e.name is None else e.name or None) for e in entities]
    rows = [
        {"entity": ", ".join(f"{t} {n or '<default>'}" for t, n in entity), "key": key, "value": value}
        for entity, quotas in (await admin.describe_quotas(matches, strict=True)).items()
        for key, value in sorted(quotas.items())
    ]
    if [e.type for e in entities] == ["users"] and entities[0].name != "":
        rows += await _scram(admin, entities[0].name)
    return rows


async def _scram(admin: Admin, user: str | None) -> list[dict[str, Any]]:
    found = await admin.describe_scram(None if user is None else [user])
    return [
        {"entity": f"{USER} {name}", "key": c.mechanism, "value": f"iterations={c.iterations}"}
        for name, credentials in sorted(found.items())
        if not isinstance(credentials, ApiError)  # RESOURCE_NOT_FOUND: a user with quotas only
        for c in credentials
    ]
