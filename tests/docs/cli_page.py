"""Writes docs/cli.md from the commands: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

from bridge.cli import failures
from bridge.cli.commands import COMMANDS, load
from bridge.cli.groups import OptionsAnywhere
from tests.docs.documents import PROJECT

PAGE = PROJECT / "docs" / "cli.md"
SHARED = ("--url", "--token", "--ca", "--cert", "--key", "--json")

INTRODUCTION = """\
# The command line

`delaybridge` calls a bridge over HTTP, and it runs and repairs one. After `make run` it is `.venv/bin/delaybridge`.
`make docs` writes this page from the commands.

```sh
.venv/bin/delaybridge send hello '"x"' --delay 5s
.venv/bin/delaybridge pull hello --wait 10s
```

## Which bridge

Client commands call the bridge of `--url`, or of the variable `BRIDGE_URL`. They send the token of `--token`, or of
`BRIDGE_TOKEN`. If none of them is given, they call the bridge of a running `make run`: its address is in
`.local/run.json`. Otherwise they call `http://127.0.0.1:8080`. A token goes only to an address that you name.

For an `https:` address they trust the authorities of the system. If the bridge has a certificate of your own authority,
name its file with `--ca` or `BRIDGE_CA`: `delaybridge topics --url https://bridge.example --ca authority.pem`. A proxy
may ask for a client certificate, which `--cert` and `--key` name.

`serve`, `door`, `doctor`, `topology`, `token`, `config`, `audit`, `backup` and `restore` need the
[settings](operating/settings.md) of a bridge, and `--config FILE` names a file of them. Of these only `doctor` calls
the bridge, to ask for its health. `migrate` asks RabbitMQ's management API. If `--url`
or `BRIDGE_URL` names a bridge, `migrate` calls that bridge too.

## Options of every client command

These options may come before or after the name of the command.

| option | meaning |
| --- | --- |
"""

OUTPUT = """
A terminal shows tables. A pipe gets plain columns without escape codes, and so does a terminal with `NO_COLOR`. Tables
cut long bodies. If a content type is neither JSON nor text, they show `base64:` and the body in base64. `get` and
`--json` show all of a body, as `body` or `body_base64`. With `--json` a list is one object a line (NDJSON). The objects
are those of the API, and their numbers keep every digit.

A call that fails prints one message on standard error: what went wrong, the address, and what to do next. A refused
field has its name, its value and its limit.

`delaybridge --install-completion` teaches your shell the commands and options.

## Exit codes

| code | meaning |
| --- | --- |
"""

LIST = """
## Commands

| command | what it does |
| --- | --- |
"""


def page() -> str:
    return "".join(_lines())


def _lines() -> Iterator[str]:
    shared = [parameter for parameter in load("get").params if parameter.opts[0] in SHARED]
    yield INTRODUCTION
    for option in shared:
        yield f"| {_form(option)} | {_meaning(option)} |\n"
    yield OUTPUT
    for code, meaning in failures.MEANINGS.items():
        yield f"| {code} | {meaning} |\n"
    yield LIST
    for name, (_, summary) in COMMANDS.items():
        yield f"| [`{name}`](#delaybridge-{name}) | {summary} |\n"
    for name in COMMANDS:
        yield from _command(f"delaybridge {name}", load(name), "##")


def _command(name: str, command: Any, rank: str) -> Iterator[str]:
    yield f"\n{rank} {name}\n\n```text\n{name} {_usage(command)}\n```\n\n"
    yield f"{cleandoc(command.help)}\n"
    own = [parameter for parameter in command.params if parameter.opts[0] not in SHARED]
    own += [parameter for parameter in command.params if parameter.opts[0] in SHARED and not _is_client(command)]
    if own:
        yield "\n| argument or option | meaning |\n| --- | --- |\n"
        for parameter in own:
            yield f"| {_form(parameter)} | {_meaning(parameter)} |\n"
    if isinstance(command, OptionsAnywhere):
        yield "\nThese options may come before or after the name of the command.\n"
    for inner, subcommand in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {inner}", subcommand, "###")


def _usage(command: Any) -> str:
    pieces = []
    for argument in command.params:
        if argument.param_type_name == "argument":
            name = argument.metavar if argument.required else f"[{argument.metavar}]"
            pieces.append(f"{name}..." if argument.nargs != 1 else name)
    return " ".join([*pieces, *(["COMMAND"] if hasattr(command, "commands") else []), "[OPTIONS]"])


def _is_client(command: Any) -> bool:
    """Whether the command has all options of client commands, which the page lists once."""
    return {*SHARED} <= {parameter.opts[0] for parameter in command.params}


def _form(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`"
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    return f"`{names}`" if parameter.is_flag else f"`{names} {parameter.metavar or 'VALUE'}`"


def _meaning(parameter: Any) -> str:
    meaning = (parameter.help or "").replace("|", "\\|")
    if parameter.envvar:
        meaning += f" Variable: `{parameter.envvar}`."
    if parameter.param_type_name == "option" and type(parameter.default) in (str, int):
        meaning += f" Default: `{parameter.default}`."
    return f"{meaning} Required." if parameter.required and parameter.param_type_name == "option" else meaning


if __name__ == "__main__":
    PAGE.write_text(page())
