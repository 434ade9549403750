"""`barnabas acls lint`: rules that decide nothing, and rules that say something else than was meant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from barnabas.cli.acls.flags import principal_from
from barnabas.cli.acls.settings import AllowEveryone, ServerProperties, SuperUsers, settings_of
from barnabas.cli.acls.sources import KnownRules, Metadata, SourceFlags, principal_of
from barnabas.cli.acls.wording import brought_text, rule_facts, rule_text
from barnabas.cli.connection import Bootstrap, BootstrapController, CommandConfig
from barnabas.cli.errors import CliError
from barnabas.cli.tables import Output, OutputFormat, show, show_json
from barnabas.core.authorizer.audit import parse_audit
from barnabas.core.authorizer.lint import Finding
from barnabas.core.authorizer.lint import lint as find
from barnabas.model.acl import AclBindingFilter
from barnabas.model.config import ConfigError

FOUND: Final = 1
CANNOT_LOOK: Final = 2
"""Exit codes; 0 is for rules without a fault."""


def lint(
    ctx: typer.Context,
    bootstrap_server: Bootstrap = None,
    bootstrap_controller: BootstrapController = None,
    command_config: CommandConfig = None,
    metadata: Metadata = None,
    seen_principal: Annotated[
        list[str] | None, typer.Option(metavar="User:NAME", help="A principal that is spelled like this for sure.")
    ] = None,
    audit_log: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A log with lines of kafka.authorizer.logger: who asks, as nodes spell it."),
    ] = None,
    super_users: SuperUsers = None,
    allow_everyone: AllowEveryone = None,
    server_properties: ServerProperties = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Find rules that decide nothing, and rules that say something else than was meant.

    Rules that a refusal covers or a wider grant implies, rules twice, rules of super users; principals that are spelled
    otherwise than SCRAM users, an audit log, --seen-principal or other rules have them; asterisks within names; host
    names where IPs are compared; operations that nobody asks for. Nothing is changed.

    Exit codes: 0 nothing was found, 1 something was, 2 it could not be looked for.

    Examples:

      barnabas acls lint --bootstrap-server localhost:9092 --super-users 'User:admin'

      barnabas acls lint --metadata /var/lib/kafka --server-properties server.properties --audit-log authorizer.log
    """
    with _told_apart():
        sources = SourceFlags(bootstrap_server, bootstrap_controller, command_config, metadata)
        known = sources.load(ctx, AclBindingFilter(), users=True)
        settings = settings_of(super_users, allow_everyone, server_properties, known)
        seen = dict.fromkeys(map(principal_of, known.scram_users), "the SCRAM users")
        for path in audit_log or ():
            seen |= dict.fromkeys(_principals_in(path), f"the audit log {path}")
        seen |= {str(principal_from(text)): "--seen-principal" for text in seen_principal or ()}
    findings = find(known.rules, super_users=settings.super_users, allow_everyone=settings.allow_everyone, seen=seen)
    notes = [f"Rules: {known.source}.", *known.notes, *settings.sentences]
    if output is OutputFormat.JSON:
        show_json([_facts(finding, known) for finding in findings])
    else:
        typer.echo(_summary(findings, known))
        show([_row(finding, known) for finding in findings], output)
        typer.echo("\n".join(notes), err=True)
    if findings:
        raise typer.Exit(FOUND)


@contextmanager
def _told_apart() -> Iterator[None]:
    """Let what keeps us from looking have another exit code than what is found."""
    try:
        yield
    except (CliError, ConfigError) as e:
        raise CliError(str(e), code=CANNOT_LOOK) from None


def _principals_in(path: Path) -> dict[str, None]:
    """Give whom the audit lines of a log speak of; other lines are passed over."""
    found: dict[str, None] = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    found[str(parse_audit(line.rstrip("\n")).principal)] = None
                except ValueError:
                    continue
    except OSError as e:
        raise CliError(f"Cannot read {path}: {e.strerror}.") from None
    if not found:
        raise CliError(f"{path} has no line of kafka.authorizer.logger in it.")
    return found


def _summary(findings: list[Finding], known: KnownRules) -> str:
    rules = f"{len(known.rules)} rules"
    if not findings:
        return f"Nothing to find fault with in {rules}."
    removable = len({finding.id for finding in findings if finding.removable})
    found = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    return f"{found} in {rules}" + (f"; {removable} of them can go without changing any answer." if removable else ".")


def _row(finding: Finding, known: KnownRules) -> dict[str, Any]:
    row: dict[str, Any] = {"finding": finding.kind.value, "rule": rule_text(finding.rule)}
    if known.brought is not None:
        row |= {"id": str(finding.id), "offset": brought_text(known.brought[finding.id])}
    if finding.alike:
        row["rule"] += f" (and {finding.alike} more)"
    because = "; ".join(map(rule_text, finding.because))
    why = f"{finding.why}: {because}" if because else finding.why
    return row | {"why": why, "what_to_do": finding.advice}


def _facts(finding: Finding, known: KnownRules) -> dict[str, Any]:
    brought = None if known.brought is None else known.brought[finding.id]
    return {
        "finding": finding.kind.value,
        "rule": rule_facts(finding.rule, None if brought is None else finding.id, brought),
        "alike": finding.alike,
        "why": finding.why,
        "because": [rule_facts(rule) for rule in finding.because],
        "what_to_do": finding.advice,
        "removable": finding.removable,
    }
