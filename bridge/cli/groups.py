"""Defines how all commands and groups of commands show help, take options, and use escape codes."""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from bridge.cli.arguments import before_command, behind_command


class App(typer.Typer):
    """A command or a group of commands. It writes no escape codes where no terminal shows them."""

    def __init__(self, group: type[TyperGroup] | None = None, *, completion: bool = False, help: str = "") -> None:
        super().__init__(
            cls=group or Group,
            help=help or None,
            no_args_is_help=True,
            add_completion=completion,
            pretty_exceptions_enable=False,  # pretty exceptions show variables, and some hold passwords
            rich_markup_mode="rich" if is_styled() else None,
        )


class Group(TyperGroup):
    """A group that takes the options which all client commands share before or after the command's name. `default`: the
    command that runs if the arguments name none; None: there is no such command."""

    default: ClassVar[str | None] = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        default = None if ctx.resilient_parsing else self.default  # a shell completes the names
        return super().parse_args(ctx, behind_command(args, default))


class ListByDefault(Group):
    default = "list"


class OptionsAnywhere(Group):
    """A group whose own options may come before or after the command's name. The help of each command says so."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.epilog = (
                f"It also takes the options that `{ctx.command_path} --help` lists, such as {self._addresses()}."
            )
        return command

    def _addresses(self) -> str:
        """Returns the names of the options that take a server's URL, with commas between them."""
        return ", ".join(option.opts[0] for option in self.params if option.opts[0].endswith("url"))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {name: bool(getattr(option, "is_flag", False)) for option in self.params for name in option.opts}
        return super().parse_args(ctx, before_command(args, own))


def is_styled() -> bool:
    """Whether standard output is a terminal that shows colours, and the user wants them (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
