"""What `explain` tells programs, whether it was asked for one name or for any."""

from __future__ import annotations

from typing import Any

from barnabas.cli.acls.flags import operation_text, resource_text
from barnabas.cli.acls.sources import KnownRules
from barnabas.cli.acls.wording import command_line, rule_facts
from barnabas.core.authorizer.explain import Change, Considered, Question
from barnabas.core.authorizer.explain_any import AnyChange, AnyConsidered, AnyQuestion


def question_facts(question: Question | AnyQuestion) -> dict[str, Any]:
    """Give what was asked; the name is None for any."""
    return {
        "principal": str(question.principal),
        "host": question.host,
        "operation": operation_text(question.operation),
        "resource_type": resource_text(question.resource_type),
        "name": None if isinstance(question, AnyQuestion) else question.name,
    }


def considered_facts(considered: Considered | AnyConsidered, known: KnownRules) -> dict[str, Any]:
    """Give a rule, with its id and what brought it where the source tells."""
    if known.brought is None:
        return rule_facts(considered.rule)
    return rule_facts(considered.rule, considered.id, known.brought[considered.id])


def change_facts(change: Change | AnyChange) -> dict[str, Any]:
    """Give what would be changed."""
    return {
        "remove": [rule_facts(rule) for _, rule in change.removed],
        "add": None if change.added is None else rule_facts(change.added),
        "no_longer_super_user": change.demoted,
    }


def commands(change: Change | AnyChange) -> list[str]:
    """Give the commands that make a change."""
    lines = [command_line("--remove", rule) for _, rule in change.removed]
    return lines if change.added is None else [*lines, command_line("--add", change.added)]
