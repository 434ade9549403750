"""What Connect checks of all sinks, and of all sources, beyond what their settings say one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from barnabas.connect.form import Form
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


def check_source(form: Form) -> None:
    """Check what Connect checks of all sources: whether they are to be exactly once."""
    found = form.found("exactly.once.support")
    if not found.errors and str(found.value).lower() == "required":
        found.errors.append("exactly.once.support: this worker has no transactions; want requested")
