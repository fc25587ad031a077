"""Puts the stand-in for the plugin into a running node (delayed_exchange.erl)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from bridge.local.rabbitmq import RabbitNode

SOURCE: Final = Path(__file__).with_name("delayed_exchange.erl")
_PLUGINS: Final = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins"


class Plugin:
    """The stand-in, which can be switched on and off as the plugin can."""

    def __init__(self, node: RabbitNode, folder: Path) -> None:
        """Compiles it for the node's release of RabbitMQ, which is this machine's."""
        folder.mkdir(parents=True, exist_ok=True)
        (plugins,) = Path("/").glob(_PLUGINS[1:])
        environment = {**os.environ, "ERL_LIBS": str(plugins)}
        subprocess.run(["erlc", "-o", str(folder), str(SOURCE)], env=environment, check=True)
        node.evaluate(f'code:add_path("{folder}"), {{module, _}} = code:load_file(delayed_exchange), ok')
        self._node = node
        self._is_on = False

    def on(self) -> None:
        self._switch(True)

    def off(self) -> None:
        self._switch(False)

    def _switch(self, on: bool) -> None:
        if on != self._is_on:
            self._node.evaluate(f"delayed_exchange:{'on' if on else 'off'}()")
            self._is_on = on
