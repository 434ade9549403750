"""What Connect checks of all sinks, and of all sources, beyond what their settings say one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from barnabas.connect.connector import AnySource, ExactlyOnceSupport
from barnabas.connect.definitions import Examined
from barnabas.connect.form import Form
from barnabas.core.connect.boundaries import TransactionBoundary
from barnabas.core.connect.exactly_once import SourceSupport
from barnabas.model.config import parse_list


def check_sink(form: Form, properties: Mapping[str, str | None], worker_group: str) -> None:
    """Check what Connect checks of all sinks: where they read, their dead letters, their group."""
    topics, pattern = properties.get("topics") or "", properties.get("topics.regex") or ""
    errors, named = [], form.found("topics")
    regex = form.found("topics.regex")
    if topics.strip() and pattern.strip():
        errors.append("topics and topics.regex are both set; want one of them")
    if not topics.strip() and not pattern.strip():
        errors.append("neither topics nor topics.regex is set; want one of them")
    named.errors += errors
    regex.errors += errors
    letters = (properties.get("errors.deadletterqueue.topic.name") or "").strip()
    if letters and letters in parse_list(topics):
        named.errors.append(f"topics: {letters!r} is the connector's own topic of dead letters")
    if letters and pattern.strip() and not regex.errors and re.fullmatch(pattern, letters):
        regex.errors.append(f"topics.regex: it matches {letters!r}, the connector's own topic of dead letters")
    override = "consumer.override.group.id"
    if override in properties:
        form.found(override).value = properties[override]
        if properties[override] == worker_group:
            form.found(override).errors.append(f"{override}: {worker_group!r} is the group of the workers")
    elif f"connect-{properties.get('name')}" == worker_group:
        form.found("name").errors.append(f"name: its consumers' group would be {worker_group!r}, that of the workers")


def check_source(
    form: Form, made_by: type[AnySource], properties: Mapping[str, str | None], support: SourceSupport
) -> None:
    """Check what Connect checks of all sources: whether they are exactly once, and say where transactions end.

    Both are what the connector itself says of its configuration (KIP-618). support: the worker's.
    """
    wanted, boundary = form.found("exactly.once.support"), form.found("transaction.boundary")
    if not wanted.errors and str(wanted.value).lower().strip() == "required":
        if not support.transactional_tasks:
            wanted.errors.append(
                "exactly.once.support: this worker does not write in transactions, as its exactly.once.source.support "
                f"is {support}; want requested here, or enabled there"
            )
        _ask(wanted, lambda: _not_exactly_once(_source(made_by, properties).exactly_once_support()))
    if not boundary.errors and str(boundary.value).lower().strip() == TransactionBoundary.CONNECTOR:
        _ask(boundary, lambda: _no_boundaries(_source(made_by, properties).can_define_transaction_boundaries()))


def _source(made_by: type[AnySource], properties: Mapping[str, str | None]) -> AnySource:
    return made_by.of({name: text for name, text in properties.items() if text is not None})


def _ask(found: Examined, question: Callable[[], str | None]) -> None:
    try:
        wrong = question()
    except Exception as e:  # noqa: BLE001 - whatever its author's code raises is wrong with the connector
        wrong = f"the connector could not say: {str(e) or type(e).__name__}"
    if wrong is not None:
        found.errors.append(f"{found.name}: {wrong}")


def _not_exactly_once(said: ExactlyOnceSupport | None) -> str | None:
    match said:
        case ExactlyOnceSupport.SUPPORTED:
            return None
        case ExactlyOnceSupport.UNSUPPORTED:
            return "the connector is not exactly once with this configuration; want requested, or another one of it"
        case _:
            return (
                "the connector does not say whether it is exactly once; see its documentation, and if it is, want "
                "requested, which does not ask"
            )


def _no_boundaries(can: bool) -> str | None:
    if can:
        return None
    return "the connector cannot say where transactions end with this configuration; want poll or interval"
