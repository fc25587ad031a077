"""Lists the commands, and imports a command's module only when the command runs.

So a client command such as `send` starts without the imports of a bridge.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from bridge.cli.arguments import behind_command, taken_out
from bridge.cli.groups import Group

# The module of each command, below `bridge.cli`, and the first line of its help.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "send": ("client.send", "Send a message, due now or later."),
    "pull": ("client.pull", "Take ready messages under a lease."),
    "ack": ("client.settle", "End messages, so that they are not delivered again."),
    "nack": ("client.settle", "Give back a message that could not be processed."),
    "get": ("client.messages", "Look up a message."),
    "timeline": ("client.messages", "Show what happened to a message."),
    "change": ("client.send", "Change a waiting message: its body, headers, limits, labels and time."),
    "move": ("client.messages", "Change when a waiting message is due."),
    "run-now": ("client.messages", "Make a waiting message due now."),
    "delete": ("client.messages", "Delete a message."),
    "list": ("client.messages", "List messages of one topic or many, by due time."),
    "bulk": ("client.bulk", "Delete, move, run now or replay all messages that match."),
    "operations": ("client.operations", "List, show and cancel bulk operations."),
    "schedule": ("client.schedule", "List, show, set, apply, pause, resume, trigger and remove schedules."),
    "topics": ("client.topics", "List, show, change and remove topics."),
    "pause": ("client.topics", "Stop the releases and pulls of a topic."),
    "resume": ("client.topics", "End the pause of a topic."),
    "dead": ("client.dead", "List, replay and drop dead letters."),
    "subscriptions": ("client.subscriptions", "List, show, set and remove subscriptions."),
    "watch": ("client.watch", "Follow topics or one message."),
    "version": ("client.version", "Print the versions of this program and of the bridge."),
    "serve": ("serve", "Run a bridge in BRIDGE_WORKERS processes."),
    "dev": ("dev", "Run RabbitMQ, Redis and the bridge on this machine."),
    "doctor": ("doctor.command", "Find what is wrong with the settings, RabbitMQ, Redis and a running bridge."),
    "topology": ("topology", "Show, declare, check, export and drain the topology on RabbitMQ."),
    "migrate": ("migrate.command", "Move exchanges of the delayed-message plugin to plain ones, and back."),
    "door": ("door", "Pass AMQP clients on to RabbitMQ, so that clients of the delayed-message plugin need no change."),
    "token": ("token", "Create, list and revoke the tokens of HTTP clients."),
    "config": ("config", "Show the settings, and check them."),
    "audit": ("audit", "List messages whose copy is lost; with --repair, publish them again."),
    "backup": (
        "backup",
        "Write the messages, policies, schedules, subscriptions and tokens of a pool to a file.",
    ),
    "restore": ("backup", "Restore a backup: each waiting message waits again until it is due."),
}


class Commands(Group):
    """The group of all commands. Has only the name and the first line of help of a command until the command runs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, (_, summary) in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=summary)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        config, rest = taken_out(args, {"--config": False})  # the option may come behind the command's name too
        return TyperGroup.parse_args(self, ctx, [*config, *behind_command(rest)])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """Imports the module of a command, and returns the full command or group with its options. Until then `Commands`
    has only the name and the first line of help."""
    module = f"bridge.cli.{COMMANDS[name][0]}"
    if module not in sys.modules:
        # Imported objects live for ever, and the garbage collector would walk them again and again. With the collector
        # off, assembling a bridge takes 0.61 s of CPU, not 0.71 s.
        gc.disable()
        import_module(module)
        gc.freeze()
        gc.enable()
    command: Any = get_command(sys.modules[module].app)
    command = getattr(command, "commands", {}).get(name, command)
    command.name = name
    return command
