"""`python -m barnabas.demo` is `barnabas demo`."""

import typer

from barnabas.demo.command import command

typer.run(command)
