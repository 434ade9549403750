"""Looking at a connector's configuration as a whole: every setting that counts, and everything that is wrong with it.

What is asked and in which order is Connect's: the settings of all connectors, of sinks or sources, of each of its
transformations and predicates, the connector's own, what it overrides of its clients' settings, its converters' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.client.config_keys import CLIENT_KEYS
from barnabas.connect import common_definitions as common
from barnabas.connect.common_definitions import COMMON, PARTS, SINKS, SOURCES, with_default
from barnabas.connect.config import WorkerConfig
from barnabas.connect.connector import Connector
from barnabas.connect.definitions import Definition, Examined, by_weight, definitions, examine
from barnabas.connect.form import Form
from barnabas.connect.herder_port import BadRequestError, ConfigInfos
from barnabas.connect.kind_checks import check_sink, check_source
from barnabas.connect.override_policy import refusals
from barnabas.connect.plugin import CONNECTORS, Catalogue, Kind, Plugin, kinds_of_converters
from barnabas.connect.wanted_versions import wrong_connector, wrong_part
from barnabas.model.config import ConfigError, parse_list

Properties = Mapping[str, str | None]
_CLASS: Final = "connector.class"
_VERSION: Final = "connector.plugin.version"
_TELLING: Final = 4
"""A secret that is shorter may stand in a message by chance."""


def settings_of(plugin: Plugin) -> list[Definition]:
    """Give every setting of a plug-in, its own first."""
    if plugin.kind not in CONNECTORS:
        return _own(plugin)
    own = _own(plugin)
    known = {each.name for each in own}
    return own + [each for each in _declared(plugin, _of_kind(plugin.kind)) if each.name not in known]


class Validation:
    """Looks at configurations on behalf of one worker."""

    def __init__(self, catalogue: Catalogue, worker: WorkerConfig) -> None:
        self._catalogue = catalogue
        self._worker = worker

    def connector(self, properties: Properties) -> Plugin:
        """Give the class that a configuration names; BadRequestError when it names none, or one that is not here."""
        named = properties.get(_CLASS)
        if named is None:
            raise BadRequestError("The configuration names no connector.class")
        plugin = self._catalogue.find(named, *CONNECTORS)
        if plugin is None:
            known = ", ".join(self._catalogue.class_names(*CONNECTORS))
            raise BadRequestError(f"There is no connector.class {named!r} on this worker; there are {known}")
        return plugin

    def validate(self, given: Properties) -> ConfigInfos:
        """Look at a configuration; BadRequestError when it names no class that is here, or a secret that is not."""
        plugin = self.connector(given)
        properties = self._resolved(given)
        wrong_version = wrong_connector(plugin, properties)
        form = Form()
        for row in self._of_all(plugin, properties) if wrong_version is None else _declared(plugin, COMMON):
            form.add(row, self._examined(row, properties))
        form.found(_VERSION).recommended = [plugin.version]
        if wrong_version is not None:
            form.found(_CLASS).errors.append(wrong_version)
            form.found(_VERSION).errors.append(wrong_version)
        else:
            self._of_parts(form, properties)
            if plugin.kind is Kind.SINK:
                check_sink(form, properties, self._worker.text("group.id"))
            else:
                check_source(form, plugin.made_by, properties, self._worker.source_support)
        for name, text in properties.items():
            if text is None:
                form.found(name).errors.append(f"{name}: null is no value; leave the setting out")
        rest = Form(form.groups)
        if wrong_version is None:
            self._of_connector(plugin, form, properties)
            self._of_clients(plugin, rest, properties)
            self._of_converters(form, rest, properties)
        errors = sum(len(each.errors) for _, each in form.rows)
        # In the rest settings count, not errors, as they do in the JVM.
        errors += sum(bool(each.errors) for _, each in rest.rows)
        rows = form.rows + rest.rows
        _hide(rows, given, properties)
        name = given[_CLASS] or ""
        return ConfigInfos(name, errors, tuple(form.groups), tuple(found.as_json(row) for row, found in rows))

    # The settings of all connectors.

    def _of_all(self, plugin: Plugin, properties: Properties) -> list[Definition]:
        rows = []
        for row in _declared(plugin, _of_kind(plugin.kind)):
            part = row.name.partition(".")[0]
            if part in PARTS and row.name.endswith("converter"):
                row = with_default(row, self._worker[row.name])
            elif part in PARTS:
                chosen = self._converter(part, properties.get(f"{part}.converter") or self._worker[f"{part}.converter"])
                row = with_default(row, None if chosen is None else chosen.version)
            rows.append(row)
        return rows

    def _examined(self, row: Definition, properties: Properties) -> Examined:
        found = examine(row, properties)
        part, _, what = row.name.partition(".")
        if part not in PARTS or not what.startswith("converter"):
            return found
        kinds = kinds_of_converters(part)
        if what == "converter":
            self._class(found, properties, *kinds)
            found.recommended = self._catalogue.class_names(*kinds)
        else:
            chosen = self._converter(part, properties.get(f"{part}.converter") or self._worker[f"{part}.converter"])
            found.recommended = [] if chosen is None else [chosen.version]
            found.visible = chosen is not None
        return found

    def _converter(self, part: str, name: str | None) -> Plugin | None:
        return self._catalogue.find(name, *kinds_of_converters(part))

    def _class(self, found: Examined, properties: Properties, *kinds: Kind) -> Plugin | None:
        """Put the whole name of a class in place of what the configuration calls it."""
        name = properties.get(found.name)
        if name is None or found.value is None:
            return None
        plugin = self._catalogue.find(name, *kinds)
        if plugin is None:
            other = self._catalogue.find(name)
            found.value = None if other is None else other.class_name
            known = ", ".join(self._catalogue.class_names(*kinds))
            found.errors.append(f"{found.name}: there is no {kinds[0].label.replace('_', ' ')} {name!r}; want {known}")
            return None
        found.value = plugin.class_name
        return plugin

    # Transformations and predicates.

    def _of_parts(self, form: Form, properties: Properties) -> None:
        self._of_aliases(form, properties, "transforms", common.TRANSFORMS_GROUP, Kind.TRANSFORMATION)
        self._of_aliases(form, properties, "predicates", common.PREDICATES_GROUP, Kind.PREDICATE)

    def _of_aliases(self, form: Form, properties: Properties, setting: str, group: str, kind: Kind) -> None:
        for alias in dict.fromkeys(parse_list(properties.get(setting) or "")):
            prefix, own_group = f"{setting}.{alias}.", f"{group}: {alias}"
            label = kind.label.capitalize()
            type_row = Definition(common.TYPE, None, 0, "LONG", f"{label} type for {alias}").placed(prefix, own_group)
            found = form.add(type_row, examine(type_row, properties))
            plugin = self._class(found, properties, kind)
            found.recommended = self._catalogue.class_names(kind)
            version_row = Definition(common.VERSION, None, 1, "LONG", f"{label} version for {alias}")
            version_row = with_default(version_row, None if plugin is None else plugin.version)
            version_row = version_row.placed(prefix, own_group)
            version = form.add(version_row, examine(version_row, properties))
            version.recommended = [] if plugin is None else [plugin.version]
            wrong = wrong_part(plugin, properties, prefix)
            if wrong is not None:
                version.errors.append(wrong)
            if plugin is not None and wrong is not None:
                found.errors.append(wrong)
            if (
                kind is Kind.TRANSFORMATION
                and prefix + "negate" in properties
                and prefix + "predicate" not in properties
            ):
                found.errors.append(f"{prefix}negate: there is no {prefix}predicate to be negated")
            if plugin is None or wrong is not None:
                continue
            rows = _own(plugin)
            if kind is Kind.TRANSFORMATION:
                implied = {each.name for each in common.OF_TRANSFORMATIONS}
                rows = [*common.OF_TRANSFORMATIONS, *(each for each in rows if each.name not in implied)]
            for order, row in enumerate(by_weight(rows), 2):
                placed = row.placed(prefix, own_group, order)
                form.add(placed, examine(placed, properties))

    # The connector's own.

    def _of_connector(self, plugin: Plugin, form: Form, properties: Properties) -> None:
        known = {found.name for _, found in form.rows}
        fine = True
        for row in _own(plugin):
            found = examine(row, properties)
            fine = fine and not found.errors
            if row.name not in known:
                form.add(row, found)
        if not fine:
            return
        made_by: type[Connector] = plugin.made_by
        try:
            wrong = made_by.of({name: text for name, text in properties.items() if text is not None}).validate()
        except Exception as e:  # noqa: BLE001 - whatever its author's code raises is wrong with the connector
            wrong = {_CLASS: f"{type(e).__name__}: {e}"}
        for name, what in wrong.items():
            form.found(name).errors.append(f"{name}: {what}")

    # Its clients, its converters.

    def _of_clients(self, plugin: Plugin, form: Form, properties: Properties) -> None:
        letters = bool((properties.get("errors.deadletterqueue.topic.name") or "").strip())
        sink = plugin.kind is Kind.SINK
        made = any(name.startswith("topic.creation.") for name in properties)
        used = {"producer": not sink or letters, "admin": letters if sink else made, "consumer": sink}
        for kind in (each for each, yes in used.items() if yes):
            prefix = f"{kind}.override."
            overridden = {name: text for name, text in properties.items() if name.startswith(prefix)}
            refused = refusals(self._worker, [name.removeprefix(prefix) for name in overridden])
            for name, text in overridden.items():
                bare = name.removeprefix(prefix)
                key = CLIENT_KEYS.get(bare)
                if key is None:
                    found = Examined(name, text)
                    form.rows.append((None, found))
                else:
                    row = Definition(key).placed(prefix)
                    found = form.add(row, examine(row, {name: text}))
                if bare in refused:
                    found.errors.append(refused[bare])

    def _of_converters(self, form: Form, rest: Form, properties: Properties) -> None:
        for part in ("header", "key", "value"):
            setting = f"{part}.converter"
            prefix = f"{setting}."
            checked = form.found(setting), form.found(prefix + common.VERSION.name)
            if properties.get(setting) is None or any(each.errors for each in checked):
                continue
            plugin = self._converter(part, properties[setting])
            if plugin is None:
                continue
            wrong = wrong_part(plugin, properties, prefix)
            if wrong is not None:
                for each in checked:
                    each.errors.append(wrong)
                continue
            own = {prefix + "converter.type": part} | dict(properties)
            for row in _own(plugin):
                placed = row.placed(prefix)
                rest.add(placed, examine(placed, own))

    # Secrets.

    def _resolved(self, given: Properties) -> dict[str, str | None]:
        secrets = self._worker.secrets
        found: dict[str, str | None] = {}
        for name, text in given.items():
            try:
                found[name] = None if text is None else secrets.resolve(text)
            except ConfigError as e:
                raise BadRequestError(f"{name}: {e}") from None
        return found


def _of_kind(kind: Kind) -> list[Definition]:
    return [*COMMON, *(SINKS if kind is Kind.SINK else SOURCES)]


def _declared(plugin: Plugin, rows: Iterable[Definition]) -> list[Definition]:
    return [with_default(each, plugin.version) if each.name == _VERSION else each for each in rows]


def _own(plugin: Plugin) -> list[Definition]:
    rows = definitions(plugin.config, common.CONVERTER_PLACES.get(plugin.class_name))
    if plugin.kind not in (Kind.CONVERTER, Kind.HEADER_CONVERTER):
        return rows
    return [common.CONVERTER_TYPE if row.name == common.CONVERTER_TYPE.name else row for row in rows]


def _hide(rows: list[tuple[Definition | None, Examined]], given: Properties, resolved: Properties) -> None:
    """Show references to secrets in place of what they stand for."""
    hidden = {
        name: (reference, secret)
        for name, reference in given.items()
        if reference is not None and (secret := resolved[name]) is not None and secret != reference
    }
    for _, found in rows:
        if found.name in hidden:
            found.value = hidden[found.name][0]
        for name, (reference, secret) in hidden.items():
            if secret and (name == found.name or len(secret) >= _TELLING):
                found.errors = [each.replace(secret, reference) for each in found.errors]
