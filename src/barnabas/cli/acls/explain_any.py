"""`barnabas acls explain --any-topic`: may somebody do something to any topic at all, and why."""

from __future__ import annotations

from typing import Any

import typer

from barnabas.cli.acls.explained import change_facts, commands, considered_facts, question_facts
from barnabas.cli.acls.flags import operation_text, resource_text
from barnabas.cli.acls.settings import Settings
from barnabas.cli.acls.sources import KnownRules
from barnabas.cli.acls.wording import brought_text, pattern_text, rule_facts, rule_text
from barnabas.cli.tables import OutputFormat, show, show_json
from barnabas.core.authorizer.explain_any import (
    SOME_NAME,
    AnyChange,
    AnyConsidered,
    AnyExplanation,
    AnyQuestion,
)
from barnabas.core.authorizer.explain_any import explain_any as explain_answer
from barnabas.core.authorizer.standard import StandardAuthorizer, StandingRule
from barnabas.model.acl import AclPermissionType


def explain_any(question: AnyQuestion, known: KnownRules, settings: Settings, output: OutputFormat) -> None:
    """Print the answer with its reasons."""
    rules = {acl_id: rule for acl_id, rule in known.rules if rule.pattern.resource_type is question.resource_type}
    unique = {rule: acl_id for acl_id, rule in rules.items()}
    authorizer = StandardAuthorizer(settings.super_users, settings.allow_everyone).with_acls(
        {acl_id: rule for rule, acl_id in unique.items()}
    )
    told = explain_answer(authorizer, question)
    if output is OutputFormat.JSON:
        show_json(_facts(told, known, settings))
    else:
        _print(told, known, settings)


def _print(told: AnyExplanation, known: KnownRules, settings: Settings) -> None:
    typer.echo(_summary(told, known))
    typer.echo("")
    if told.considered:
        typer.echo(f"Rules on {resource_text(told.question.resource_type)}s that concern {told.question.principal}:")
        show([_row(number, c, known) for number, c in enumerate(told.considered, 1)], OutputFormat.TABLE)
    typer.echo("To refuse it:" if told.allowed else "To allow it:")
    for number, change in enumerate(told.changes):
        if number:
            typer.echo("Or:")
        for line in _proposal(change):
            typer.echo(f"  {line}")
    typer.echo("")
    for sentence in (f"Rules: {known.source}.", *known.notes, *settings.sentences):
        typer.echo(sentence)


def _summary(told: AnyExplanation, known: KnownRules) -> str:
    q = told.question
    kind = resource_text(q.resource_type)
    may = f"{q.principal} may {operation_text(q.operation)} some {kind}"
    may_not = f"{q.principal} may {operation_text(q.operation)} no {kind} at all"
    answer = f"ALLOWED: {may}" if told.allowed else f"DENIED: {may_not}"
    return f"{answer} from {q.host}: {_reason(told, known)}."


def _reason(told: AnyExplanation, known: KnownRules) -> str:
    match told.standing:
        case StandingRule.SUPER_USER:
            return "a super user passes before any rule is looked at"
        case StandingRule.DEFAULT_ALLOW:
            return "allow.everyone.if.no.acl.found lets everybody in where no rule is, as on a name that Kafka makes up"
        case StandingRule.DEFAULT_DENY if any(c.refused_by for c in told.considered):
            return "whatever is granted is refused as a whole"
        case StandingRule.DEFAULT_DENY:
            return "no rule grants it"
    assert told.deciding is not None, "a rule decides where nothing else does"
    by = f"{'granted' if told.allowed else 'refused'} by {rule_text(told.deciding.rule)}"
    if known.brought is None:
        return by
    return f"{by} (id {told.deciding.id}, metadata offset {brought_text(known.brought[told.deciding.id])})"


def _row(number: int, c: AnyConsidered, known: KnownRules) -> dict[str, Any]:
    row: dict[str, Any] = {
        "#": number,
        "permission": c.rule.permission_type.name,
        "principal": c.rule.principal,
        "host": c.rule.host,
        "operation": operation_text(c.rule.operation),
        "name": pattern_text(c.rule),
    }
    if known.brought is not None:
        row |= {"id": str(c.id), "offset": brought_text(known.brought[c.id])}
    by = f" by {', '.join(pattern_text(rule) for _, rule in c.refused_by)}" if c.refused_by else ""
    return row | {"effect": f"{c.effect.value}{by}" + (": DECIDES" if c.decides else "")}


def _proposal(change: AnyChange) -> list[str]:
    lines = []
    if change.demoted is not None:
        lines.append(
            f"no rule can refuse a super user: take {change.demoted} out of super.users, and restart the nodes"
        )
    lines += commands(change)
    added = change.added
    if added is not None and added.permission_type is AclPermissionType.ALLOW and SOME_NAME in added.pattern.name:
        lines.append(f"{added.pattern.name} stands for a name of yours that no refusal covers.")
    return lines


def _facts(told: AnyExplanation, known: KnownRules, settings: Settings) -> dict[str, Any]:
    deciding = told.deciding
    return {
        "allowed": told.allowed,
        "summary": _summary(told, known),
        "question": question_facts(told.question),
        "decided_by": "ACL" if deciding is not None else str(told.standing),
        "rule": None if deciding is None else considered_facts(deciding, known),
        "considered": [
            considered_facts(c, known)
            | {"effect": c.effect.value, "refused_by": [rule_facts(r) for _, r in c.refused_by], "decides": c.decides}
            for c in told.considered
        ],
        "changes": [
            change_facts(change)
            | {
                "allowed_then": not told.allowed,
                "commands": commands(change),
            }
            for change in told.changes
        ],
        "source": known.source,
        "settings": settings.facts,
        "notes": list(known.notes),
    }
