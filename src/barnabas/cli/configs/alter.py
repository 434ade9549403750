"""`barnabas configs --alter`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.cli.configs.changes import Changes, parse_pairs
from barnabas.cli.configs.entities import QUOTAS, RESOURCES, Entity
from barnabas.cli.connection import report_failures, run_admin
from barnabas.cli.errors import CliError
from barnabas.cli.tables import OutputFormat, done
from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource
from barnabas.client.admin.users import ScramDeletion, ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, MIN_ITERATIONS
from barnabas.model.config import Password
from barnabas.wire.errors import ApiError


def alter(config: ClientConfig, entities: Sequence[Entity], changes: Changes, output: OutputFormat) -> None:
    """Change the settings of the entities."""
    for entity in entities:
        if entity.name is None:
            raise CliError(f"--alter changes one of the {entity.type}: name it, or say --entity-default.")
    about = ", ".join(str(e) for e in entities)
    if entities[0].type in QUOTAS:
        run_admin(config, lambda a: _alter_quotas(a, config, entities, changes), needs="AlterConfigs on the cluster")
    else:
        needs = f"AlterConfigs on {about}"
        results = run_admin(config, lambda a: _alter_configs(a, entities[0], changes), needs=needs)
        report_failures({str(entities[0]): next(iter(results.values()), None)}, config, needs)
    done(f"Updated {about}.", output, entity=about, added=sorted(changes.add), deleted=list(changes.delete))


async def _alter_configs(admin: Admin, entity: Entity, changes: Changes) -> Mapping[ConfigResource, ApiError | None]:
    resource = ConfigResource(RESOURCES[entity.type], entity.name or "")
    wanted = [ConfigChange(k, AlterConfigOp.SET, v) for k, v in changes.add.items()]
    wanted += [ConfigChange(k, AlterConfigOp.DELETE) for k in changes.delete]
    return await admin.incremental_alter_configs({resource: wanted})


async def _alter_quotas(admin: Admin, config: ClientConfig, entities: Sequence[Entity], changes: Changes) -> None:
    scram_add = {k: v for k, v in changes.add.items() if k in ALGORITHMS}
    scram_delete = [k for k in changes.delete if k in ALGORITHMS]
    quotas: dict[str, float | None] = {}
    for key, value in changes.add.items():
        if key not in scram_add:
            quotas[key] = _number(key, value)
    quotas |= {k: None for k in changes.delete if k not in scram_delete}
    if scram_add or scram_delete:
        await _alter_scram(admin, config, entities, scram_add, scram_delete)
    if quotas:
        await admin.alter_quotas({QUOTAS[e.type]: e.name or None for e in entities}, quotas)


async def _alter_scram(
    admin: Admin, config: ClientConfig, entities: Sequence[Entity], add: Mapping[str, str], delete: Sequence[str]
) -> None:
    if [e.type for e in entities] != ["users"] or not entities[0].name:
        raise CliError("SCRAM credentials belong to one user: --user NAME.")
    user = entities[0].name
    upsertions = [_credential(user, mechanism, text) for mechanism, text in add.items()]
    results = await admin.alter_scram(upsertions, [ScramDeletion(user, mechanism) for mechanism in delete])
    report_failures({f"user {u}": e for u, e in results.items()}, config, "Alter on the cluster")


def _credential(user: str, mechanism: str, text: str) -> ScramUpsertion:
    options = parse_pairs(text)
    password = options.pop("password", "")
    iterations = options.pop("iterations", str(MIN_ITERATIONS))
    if not password or options or not iterations.isdigit():
        raise CliError(f"{mechanism}: want {mechanism}=[iterations=8192,password=SECRET].")
    return ScramUpsertion(user, mechanism, Password(password), int(iterations))


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise CliError(f"{key}={value}: a quota is a number.") from None
