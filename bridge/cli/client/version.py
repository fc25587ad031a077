"""Runs `delaybridge version`: prints the versions of this program and of the bridge."""

from __future__ import annotations

import json
from importlib.metadata import version as version_of

from bridge.cli.client.answer import Answer
from bridge.cli.client.api import Api
from bridge.cli.client.command import command
from bridge.cli.client.output import Output
from bridge.cli.groups import App

app = App()


@command(app)
def version(api: Api, output: Output) -> None:
    """Print the versions of this program and of the bridge.

    `delaybridge --version` prints its own version without asking a bridge.
    """
    described = api.call("GET", "/openapi.json").value["info"]
    versions = {"program": version_of("delaybridge"), "bridge": described["version"], "url": api.url}
    output.show(Answer(json.dumps(versions)))
