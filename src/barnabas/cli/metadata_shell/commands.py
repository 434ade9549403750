"""What can be typed into the metadata shell: Kafka's commands, each a function on the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.cli.metadata_shell.paths import Found, complete, glob
from barnabas.core.metadata.tree import Tree

_GAP: Final = 2
_INDENT: Final = "  "
_MIN_COLUMN: Final = 4


@dataclass(slots=True)
class Session:
    """What commands act on. width: of the terminal, None for one name a line; failed: something could not be done."""

    root: Tree
    echo: Callable[[str], None]
    width: int | None = None
    cwd: str = "/"
    history: list[str] = field(default_factory=list)
    failed: bool = False
    over: bool = False

    def complain(self, text: str) -> None:
        """Say what could not be done."""
        self.failed = True
        self.echo(text)

    def find(self, command: str, pattern: str) -> list[Found]:
        """Give what a pattern names, and complain when that is nothing."""
        found = glob(self.root, pattern, self.cwd)
        if not found:
            self.complain(f"{command}: {pattern}: no such file or directory.")
        return found


class ShellCommand(NamedTuple):
    """One command. usage: its arguments; least, most: how many of them; paths: whether they are completed as paths."""

    run: Callable[[Session, Sequence[str]], None]
    usage: str
    help: str
    least: int = 0
    most: int | None = None
    paths: bool = True
    shell_only: bool = False


def cat(session: Session, targets: Sequence[str]) -> None:
    """Show the contents of files."""
    for target in targets:
        for found in session.find("cat", target):
            if isinstance(found.node, str):
                session.echo(found.node)
            else:
                session.complain(f"cat: {target}: is a directory.")


def cd(session: Session, targets: Sequence[str]) -> None:
    """Go to another directory, the root when none is named."""
    target = targets[0] if targets else "/"
    for found in session.find("cd", target):
        if isinstance(found.node, str):
            session.complain(f"cd: {target}: not a directory.")
        else:
            session.cwd = found.absolute


def find(session: Session, targets: Sequence[str]) -> None:
    """Print the path of everything below."""
    for target in targets or (".",):
        for found in session.find("find", target):
            _print_paths(session, target, found.node)


def _print_paths(session: Session, path: str, node: Tree) -> None:
    session.echo(path)
    if isinstance(node, Mapping):
        for name in sorted(node):
            _print_paths(session, f"{path.removesuffix('/')}/{name}", node[name])


def ls(session: Session, targets: Sequence[str]) -> None:
    """List names."""
    found = [f for target in targets or (".",) for f in session.find("ls", target)]
    files = [f.name for f in found if isinstance(f.node, str)]
    directories = [(f.name, sorted(f.node)) for f in found if isinstance(f.node, Mapping)]
    _print_columns(session, files)
    titled = bool(files) or len(directories) > 1
    for number, (name, children) in enumerate(directories):
        if titled and children:
            if files or number:
                session.echo("")
            session.echo(f"{name}:")
        _print_columns(session, children)


def _print_columns(session: Session, names: Sequence[str]) -> None:
    """Print names down the columns, as many columns as the terminal has room for."""
    most = 1 if session.width is None else max(session.width // _MIN_COLUMN, 1)
    for count in range(min(most, len(names)), 0, -1):
        lines = -(-len(names) // count)
        columns = [names[i : i + lines] for i in range(0, len(names), lines)]
        widths = [max(map(len, column)) + _GAP for column in columns]
        if count == 1 or (session.width is not None and sum(widths) <= session.width and len(columns) == count):
            for line in range(lines):
                row = [c[line].ljust(w) for c, w in zip(columns, widths, strict=True) if line < len(c)]
                session.echo("".join(row).rstrip())
            return


def tree(session: Session, targets: Sequence[str]) -> None:
    """Show everything below, indented."""
    for target in targets:
        for found in session.find("tree", target):
            _print_tree(session, found.node, "")


def _print_tree(session: Session, node: Tree, indent: str) -> None:
    if isinstance(node, str):
        session.echo(indent + node)
        return
    for name in sorted(node):
        session.echo(f"{indent}{name}:")
        _print_tree(session, node[name], indent + _INDENT)


def pwd(session: Session, targets: Sequence[str]) -> None:
    """Print where we are."""
    session.echo(session.cwd)


def history(session: Session, targets: Sequence[str]) -> None:
    """Print what was typed."""
    count = int(targets[0]) if targets and targets[0].isdigit() else len(session.history)
    first = max(len(session.history) - count, 0)
    for number, line in enumerate(session.history[first:], first):
        session.echo(f"{number:5d}  {line}")


def help_(session: Session, targets: Sequence[str]) -> None:
    """Print all commands."""
    for name, command in COMMANDS.items():
        session.echo(f"{name + ' ' + command.usage:<24}{command.help}")
    session.echo("`*`, `?` and `{a,b}` in paths stand for names. Tab completes; Ctrl-D leaves.")


def man(session: Session, targets: Sequence[str]) -> None:
    """Explain one command."""
    command = COMMANDS.get(targets[0])
    if command is None:
        session.complain(f"man: there is no command {targets[0]}; `help` lists them.")
    else:
        session.echo(f"{targets[0]}: {command.help}\n\nusage: {targets[0]} {command.usage}".rstrip())


def leave(session: Session, targets: Sequence[str]) -> None:
    """Leave the shell."""
    session.over = True


COMMANDS: Final[Mapping[str, ShellCommand]] = {
    "cat": ShellCommand(cat, "PATH...", "Show the contents of files.", 1),
    "cd": ShellCommand(cd, "[PATH]", "Go to another directory.", 0, 1, shell_only=True),
    "exit": ShellCommand(leave, "", "Leave the shell.", 0, 0, paths=False, shell_only=True),
    "find": ShellCommand(find, "[PATH...]", "Print the path of everything below."),
    "help": ShellCommand(help_, "", "Print this.", 0, 0, paths=False, shell_only=True),
    "history": ShellCommand(history, "[NUMBER]", "Print what was typed.", 0, 1, paths=False, shell_only=True),
    "ls": ShellCommand(ls, "[PATH...]", "List names."),
    "man": ShellCommand(man, "COMMAND", "Explain one command.", 1, 1, paths=False, shell_only=True),
    "pwd": ShellCommand(pwd, "", "Print where we are.", 0, 0, paths=False, shell_only=True),
    "tree": ShellCommand(tree, "PATH...", "Show everything below, indented.", 1),
}
"""Kafka's commands, by name."""


def run(session: Session, words: Sequence[str], *, one_shot: bool = False) -> None:
    """Run one command. one_shot: from the command line, where those about the shell itself have no meaning."""
    if not words:
        return
    name, arguments = words[0], [word for word in words[1:] if word]
    command = COMMANDS.get(name)
    if command is None or (one_shot and command.shell_only):
        known = [n for n, c in COMMANDS.items() if not (one_shot and c.shell_only)]
        session.complain(f"{name}: not a command here; there are {', '.join(known)}.")
    elif len(arguments) < command.least or (command.most is not None and len(arguments) > command.most):
        session.complain(f"usage: {name} {command.usage}".rstrip())
    else:
        command.run(session, arguments)


def completions(session: Session, words: Sequence[str]) -> list[str]:
    """Give what the last of these words may be the begin of."""
    if len(words) <= 1:
        return [name for name in COMMANDS if name.startswith(words[0] if words else "")]
    command = COMMANDS.get(words[0])
    if words[0] == "man" and len(words) == 2:
        return [name for name in COMMANDS if name.startswith(words[1])]
    return complete(session.root, words[-1], session.cwd) if command is not None and command.paths else []
