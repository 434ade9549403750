"""`barnabas acls explain`: why somebody may, or may not, and the smallest change that turns the answer round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from barnabas.cli.acls.explain_any import explain_any
from barnabas.cli.acls.explained import change_facts, commands, considered_facts, question_facts
from barnabas.cli.acls.flags import check_operation, exact_principal, member_of, operation_text, resource_text
from barnabas.cli.acls.settings import AllowEveryone, ServerProperties, Settings, SuperUsers, settings_of
from barnabas.cli.acls.sources import KnownRules, Metadata, SourceFlags
from barnabas.cli.acls.wording import brought_text, command_line, pattern_text, rule_text
from barnabas.cli.connection import Bootstrap, BootstrapController, CommandConfig
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show, show_json
from barnabas.core.authorizer.explain import Change, Considered, Effect, Explanation, Question
from barnabas.core.authorizer.explain import explain as explain_answer
from barnabas.core.authorizer.explain_any import AnyQuestion
from barnabas.core.authorizer.standard import StandardAuthorizer, StandingRule
from barnabas.core.metadata.acl_changes import matches
from barnabas.model.acl import CLUSTER_NAME, WILDCARD, AclBinding, AclOperation, ResourceType
from barnabas.model.addresses import host_text, is_address

MOST_OTHERS: Final = 20
"""Rules of other principals that are listed without --all."""


def explain(
    ctx: typer.Context,
    principal: Annotated[str, typer.Option(metavar="User:NAME", help="Who asks.")],
    host: Annotated[str, typer.Option(metavar="IP", help="Where from: the client's IP.")],
    operation: Annotated[str, typer.Option(help="What for: Read, Write, Create, Describe ...")],
    topic: Annotated[str | None, typer.Option(help="A topic.")] = None,
    any_topic: Annotated[
        bool, typer.Option("--any-topic", help="Any topic at all, as producers without transactions are asked.")
    ] = False,
    group: Annotated[str | None, typer.Option(help="A group.")] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster itself.")] = False,
    transactional_id: Annotated[str | None, typer.Option(help="A transactional id.")] = None,
    delegation_token: Annotated[str | None, typer.Option(help="A delegation token.")] = None,
    user_principal: Annotated[str | None, typer.Option(help="A user (as a resource).")] = None,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    metadata: Metadata = None,
    super_users: SuperUsers = None,
    allow_everyone: AllowEveryone = None,
    server_properties: ServerProperties = None,
    all_: Annotated[bool, typer.Option("--all", help="List the rules of all other principals too.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say whether somebody may do something, by which rule, and what would turn the answer round.

    Every rule that covers the resource is shown in the order in which the authorizer meets it. The rules come from a
    live node (--bootstrap-server, which takes Describe on the cluster), from the quorum's log (--bootstrap-controller,
    which takes ClusterAction), or from files (--metadata): ours or Apache Kafka's. The last two tell ids of rules and
    the metadata offsets that brought them. Nothing is changed.

    With --any-topic it is about all topics together: Kafka gives producer ids to those who may write to any of them.
    Then the rules that concern the principal are shown, and which refusals leave nothing of a grant.

    Examples:

      barnabas acls explain --bootstrap-server localhost:9092 --principal User:alice --host 10.0.0.7
      --operation read --topic orders

      barnabas acls explain --metadata barnabas-data/data --server-properties server.properties
      --principal User:alice --host 10.0.0.7 --operation write --transactional-id payments

      barnabas acls explain --bootstrap-server localhost:9092 --principal User:alice --host 10.0.0.7
      --operation write --any-topic
    """
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
        ResourceType.DELEGATION_TOKEN: delegation_token,
        ResourceType.USER: user_principal,
    }
    source = SourceFlags(bootstrap_server, bootstrap_controller, command_config, metadata)
    question: Question | AnyQuestion = _question(principal, host, operation, named, any_topic=any_topic)
    known = source.load(ctx, question.covering)
    settings = settings_of(super_users, allow_everyone, server_properties, known)
    if isinstance(question, AnyQuestion):
        explain_any(question, known, settings, output)
        return
    covering = {rule: acl_id for acl_id, rule in known.rules if matches(question.covering, rule)}
    authorizer = StandardAuthorizer(settings.super_users, settings.allow_everyone).with_acls(
        {acl_id: rule for rule, acl_id in covering.items()}
    )
    told = explain_answer(authorizer, question)
    if output is OutputFormat.JSON:
        show_json(_facts(told, known, settings))
    else:
        _print(told, known, settings, with_all=all_)


def _question(
    principal: str, host: str, operation: str, named: dict[ResourceType, str | None], *, any_topic: bool
) -> Question | AnyQuestion:
    wanted = [(kind, name) for kind, name in named.items() if name is not None]
    if any_topic and not wanted:
        wanted = [(ResourceType.TOPIC, "")]
    elif any_topic or len(wanted) != 1:
        raise CliError("Name one resource: --topic, --any-topic, --group, --cluster, --transactional-id ...")
    ((kind, name),) = wanted
    if not is_address(host.strip()):
        raise CliError(f"--host {host!r}: want an IP address; the authorizer never looks a host name up.")
    asked = member_of(AclOperation, operation, "--operation")
    if asked in (AclOperation.ALL, AclOperation.ANY):
        raise CliError(f"--operation {operation}: stands for many operations; ask for one of them.")
    check_operation(kind, asked)
    who, where = exact_principal(principal), host_text(host.strip())
    return AnyQuestion(who, where, asked, kind) if any_topic else Question(who, where, asked, kind, name)


def _print(told: Explanation, known: KnownRules, settings: Settings, *, with_all: bool) -> None:
    typer.echo(_summary(told, known))
    typer.echo("")
    others = [c for c in told.considered if c.effect is Effect.OTHER_PRINCIPAL]
    hidden = set() if with_all or len(others) <= MOST_OTHERS else {c.id for c in others}
    rows = [_row(number, c, told, known) for number, c in enumerate(told.considered, 1) if c.id not in hidden]
    if rows:
        typer.echo(f"Rules that cover {_resource(told.question)}, in the order in which the authorizer meets them:")
        show(rows, OutputFormat.TABLE)
    if hidden:
        typer.echo(f"{len(hidden)} more rules cover it and name other principals; --all shows them.\n")
    typer.echo("To refuse it:" if told.allowed else "To allow it:")
    for number, change in enumerate(told.changes):
        if number:
            typer.echo("Or:")
        for line in _proposal(change, told):
            typer.echo(f"  {line}")
    typer.echo("")
    for sentence in (f"Rules: {known.source}.", *known.notes, *settings.sentences, *_cautions(told)):
        typer.echo(sentence)


def _summary(told: Explanation, known: KnownRules) -> str:
    q = told.question
    asked = f"{q.principal} may {{}}{operation_text(q.operation)} {_resource(q)} from {q.host}"
    answer = f"ALLOWED: {asked.format('')}" if told.allowed else f"DENIED: {asked.format('not ')}"
    return f"{answer}: {_reason(told, known)}."


def _reason(told: Explanation, known: KnownRules) -> str:
    match told.result.rule:
        case StandingRule.SUPER_USER:
            return "a super user passes before any rule is looked at"
        case StandingRule.DEFAULT_ALLOW:
            return "no rule covers it, and allow.everyone.if.no.acl.found lets everybody in then"
        case StandingRule.DEFAULT_DENY if not told.considered:
            return "no rule covers it, and without one nobody may"
        case StandingRule.DEFAULT_DENY:
            return f"of {_rules(len(told.considered))} on it none grants this"
    assert told.deciding is not None, "a rule that decides is among those that were considered"
    rule = told.deciding.rule
    told_by = f"{'granted' if told.allowed else 'refused'} by {rule_text(rule)}"
    if known.brought is not None:
        told_by += f" (id {told.deciding.id}, metadata offset {brought_text(known.brought[told.deciding.id])})"
    return told_by + (f"; {_implication(told.deciding)}" if told.deciding.implied else "")


def _rules(count: int) -> str:
    return "1 rule" if count == 1 else f"{count} rules"


def _implication(c: Considered) -> str:
    if c.rule.operation is AclOperation.ALL:
        return "All stands for every operation"
    return f"{operation_text(c.rule.operation)} implies it"


def _resource(q: Question) -> str:
    return f"{resource_text(q.resource_type)} {q.name}"


def _row(number: int, c: Considered, told: Explanation, known: KnownRules) -> dict[str, Any]:
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
    return row | {"effect": _effect_text(c, told)}


def _effect_text(c: Considered, told: Explanation) -> str:
    text = c.effect.value + (f" ({_implication(c)})" if c.implied else "")
    if c.decides:
        return f"{text}: DECIDES"
    if c.reached:
        return text
    return f"{text}; not looked at" if told.result.rule is StandingRule.SUPER_USER else f"{text}; not reached"


def _proposal(change: Change, told: Explanation) -> Iterator[str]:
    if change.demoted is not None:
        yield f"no rule can refuse a super user: take {change.demoted} out of super.users, and start the nodes anew"
    for _, rule in change.removed:
        yield command_line("--remove", rule)
    if change.added is not None:
        yield command_line("--add", change.added)
    answer = "ALLOWED" if change.after.allowed else "DENIED"
    yield f"Tried on these rules: the answer is then {answer} ({_after(change)})."
    if len(_wide(change, told.question)):
        yield "Take care: what is removed says more than this; see who else it concerns."
    if change.ends_default:
        yield "Take care: this is the first rule on the resource, and ends what the default grants to everybody else."
    if change.opens_default:
        yield "Take care: no rule is left on the resource, and the default then lets everybody in."


def _after(change: Change) -> str:
    rule = change.after.rule
    return rule_text(rule) if isinstance(rule, AclBinding) else rule.value


def _wide(change: Change, q: Question) -> list[AclBinding]:
    """Give the rules to remove that answer other questions than this one."""
    narrow = (str(q.principal), q.host, q.operation, q.name)
    return [
        rule
        for _, rule in change.removed
        if (rule.principal, rule.host, rule.operation, rule.pattern.name) != narrow or rule.pattern.name == WILDCARD
    ]


def _cautions(told: Explanation) -> Iterator[str]:
    name = told.question.name
    if name != WILDCARD and name[:1] and name[0] <= WILDCARD:
        yield (
            "Apache Kafka 4.3 may answer otherwise for names that begin with an asterisk or a character before it in "
            "ASCII: there it passes over rules on * (docs/decisions/authorizer.md)."
        )


def _facts(told: Explanation, known: KnownRules, settings: Settings) -> dict[str, Any]:
    deciding = told.deciding
    return {
        "allowed": told.allowed,
        "summary": _summary(told, known),
        "question": question_facts(told.question),
        "decided_by": "ACL" if deciding is not None else str(told.result.rule),
        "rule": None if deciding is None else considered_facts(deciding, known),
        "considered": [
            considered_facts(c, known)
            | {"effect": c.effect.value, "implied": c.implied, "reached": c.reached, "decides": c.decides}
            for c in told.considered
        ],
        "changes": [
            change_facts(change)
            | {
                "allowed_then": change.after.allowed,
                "ends_default": change.ends_default,
                "opens_default": change.opens_default,
                "commands": commands(change),
            }
            for change in told.changes
        ],
        "source": known.source,
        "settings": settings.facts,
        "notes": [*known.notes, *_cautions(told)],
    }
