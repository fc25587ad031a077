"""Runs a private RabbitMQ node on loopback, with its own ports, port mapper, cookie and data."""

from __future__ import annotations

import base64
import http.client
import os
import secrets
import socket
import subprocess
from pathlib import Path
from typing import ClassVar

from bridge.local.certificates import Certificates
from bridge.local.epmd import Epmd
from bridge.local.errors import LocalError
from bridge.local.installation import HERE, Installation
from bridge.local.ports import free_ports
from bridge.local.server import Server

USER = PASSWORD = "guest"
CTL_TIMEOUT_SECONDS = 120
COOKIE = ".erlang.cookie"

# The same as deploy/rabbitmq-advanced.config, which gives the reason.
ADVANCED_CONFIGURATION = (
    "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 5000}, {dead_letter_worker_consumer_prefetch, 256}]}].\n"
)


class RabbitNode(Server):
    """One RabbitMQ node with the management plugin. Its user is guest, with the password guest.

    Ports and data stay the same over stop, kill and start. `name` is the part of the node name before the @; the data
    belongs to that name. Nodes of one cluster share one `epmd` and one `cookie`. With `tls` the node also listens for
    TLS. It then asks clients for a certificate that the authority in `tls` has signed.

    By default Erlang binds its threads to cores, and the busiest threads of all nodes share one core. With `one_thread`
    a node has one thread, on any core. That cuts the time in which several nodes start on few cores by a quarter.
    `advanced`: the text of advanced.config.
    """

    title: ClassVar[str] = "RabbitMQ"

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        management_port: int | None = None,
        name: str = "delaybridge",
        epmd: Epmd | None = None,
        cookie: str | None = None,
        installation: Installation = HERE,
        tls: Certificates | None = None,
        one_thread: bool = False,
        advanced: str = ADVANCED_CONFIGURATION,
    ) -> None:
        super().__init__(data_dir, installation)
        free = free_ports(5)
        self.port = port or free[0]
        self.management_port = management_port or free[1]
        self.dist_port = free[2]
        self.tls_port = free[3]
        self.management_tls_port = free[4]
        self._tls = tls
        self.name = name
        self.node_name = f"{name}@localhost"
        self._epmd = epmd or Epmd(self.data_dir, installation=installation)
        self._epmd_is_shared = epmd is not None
        self._cookie = cookie
        self._one_thread = one_thread
        self._advanced = advanced

    @property
    def amqp_url(self) -> str:
        """The AMQP URL, with user and password. A `/` at the end would be an empty virtual host for Java's client."""
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    @property
    def amqps_url(self) -> str:
        """The AMQP URL for TLS, with user and password."""
        return f"amqps://{USER}:{PASSWORD}@localhost:{self.tls_port}"

    @property
    def management_url(self) -> str:
        """The URL of the management page and API, with user and password."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{self.management_port}"

    @property
    def pid(self) -> int:
        """The Erlang VM's process id.

        Raises:
            LocalError: the VM does not run.
        """
        launched = super().pid
        # The VM writes its pid to a file. So this is right even if the launched process is only its parent.
        written = self._pid_file.read_text().strip() if self._pid_file.exists() else ""
        return int(written) if written else launched

    @property
    def _pid_file(self) -> Path:
        return self.data_dir / "pid"

    def program(self, name: str) -> list[str]:
        """Returns the command line of one of RabbitMQ's programs, without arguments.

        It names the script in /usr/lib/rabbitmq/bin, because the scripts in PATH run only as the users root and
        rabbitmq.
        """
        readable = self._tls.files if self._tls else ()
        path = f"/usr/lib/rabbitmq/bin/{name}"
        return self.installation.command(path, "rabbitmq-server", self.data_dir, readable=readable)

    @property
    def ports(self) -> list[int]:
        of_tls = [self.tls_port, self.management_tls_port] if self._tls is not None else []
        return [self.port, self.management_port, self.dist_port, *of_tls]

    def command(self) -> list[str]:
        return self.program("rabbitmq-server")

    def environment(self) -> dict[str, str]:
        data = self.data_dir
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        threads = {"RABBITMQ_SCHEDULER_BIND_TYPE": "u"} if self._one_thread else {}
        return threads | {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(data),
            # The crash dump of a node that does not start would come into the current folder.
            "ERL_CRASH_DUMP_SECONDS": "0",
            # With this, the start script becomes the VM. Otherwise it stays as the VM's parent.
            "RUNNING_UNDER_SYSTEMD": "true",
            "ERL_EPMD_PORT": str(self._epmd.port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.node_name,
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_CONF_ENV_FILE": str(data / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(data / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(data / "conf.d"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(data / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(data / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(data / "mnesia"),
            "RABBITMQ_LOG_BASE": str(data / "log"),
            "RABBITMQ_PID_FILE": str(self._pid_file),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{loopback} +S 1:1" if self._one_thread else loopback,
            # Without these, a command starts a port mapper if none runs, and two commands at the same time compete for
            # the default ports.
            "RABBITMQ_CTL_ERL_ARGS": f"-start_epmd false {loopback}",
            "RABBITMQ_CTL_DIST_PORT_MIN": "0",
            "RABBITMQ_CTL_DIST_PORT_MAX": "0",
        }

    def launch(self) -> None:
        self._write_files()
        self._epmd.start()
        super().launch()

    def wait_until_stopped(self) -> None:
        super().wait_until_stopped()
        if not self._epmd_is_shared:
            self._epmd.stop()

    def kill(self) -> None:
        super().kill()
        if not self._epmd_is_shared:
            self._epmd.kill()

    def ctl(self, *arguments: str) -> str:
        """Runs rabbitmqctl against this node and returns its output. It costs half a second of CPU: `evaluate` is
        cheaper.

        Raises:
            LocalError: rabbitmqctl failed.
        """
        return self._run("rabbitmqctl", [*self.program("rabbitmqctl"), "--quiet", *arguments])

    def evaluate(self, expression: str) -> str:
        """Evaluates an Erlang expression in the node, and returns its value as Erlang writes it.

        Raises:
            LocalError: the evaluation failed.
        """
        program = self.installation.command("erl_call", "erlang-base", self.data_dir)
        cookie = (self.data_dir / COOKIE).read_text()
        says = self._run("erl_call", [*program, "-sname", self.node_name, "-c", cookie, "-e"], f"{expression}.\n")
        if not says.startswith("{ok, "):
            raise LocalError(f"{expression} failed: {says}")
        return says.removeprefix("{ok, ").removesuffix("}")

    def _run(self, title: str, command: list[str], standard_input: str = "") -> str:
        if not self.running:
            raise LocalError(f"RabbitMQ {self.node_name} is not running")
        done = subprocess.run(
            command,
            env=self.environment(),
            input=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=CTL_TIMEOUT_SECONDS,
            check=False,
            text=True,
        )
        if done.returncode != 0:
            raise LocalError(f"{title} for {self.node_name} ended with code {done.returncode}:\n{done.stdout}")
        return done.stdout

    def sync(self) -> None:
        """Writes the node's tables of queues to disk at once, so that a kill right after a declare loses no queue.

        RabbitMQ itself writes these tables up to a second after a change. A node that is killed earlier loses a quorum
        queue that was just declared, and its confirmed messages; that queue does not answer after the next start.
        """
        self.evaluate("[dets:sync(Table) || Table <- dets:all()]")

    def is_ready(self) -> bool:
        return self._pid_file.exists() and self._amqp_answers() and self._management_answers()

    def _amqp_answers(self) -> bool:
        method_frame = b"\x01"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as client:
                client.sendall(b"AMQP\x00\x00\x09\x01")
                return client.recv(1) == method_frame
        except OSError:
            return False

    def _management_answers(self) -> bool:
        credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        client = http.client.HTTPConnection("127.0.0.1", self.management_port, timeout=5)
        try:
            client.request("GET", "/api/overview", headers={"Authorization": f"Basic {credentials}"})
            return client.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()

    def _write_files(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._pid_file.unlink(missing_ok=True)
        cookie = self.data_dir / COOKIE
        if not cookie.exists():
            cookie.touch(mode=0o600)
            cookie.write_text(self._cookie or secrets.token_hex(20))
            cookie.chmod(0o400)
        self._write("rabbitmq-env.conf", "")
        self._write("enabled_plugins", "[rabbitmq_management].\n")
        self._write("rabbitmq.conf", self.configuration())
        self._write("advanced.config", self._advanced)

    def _write(self, name: str, text: str) -> None:
        (self.data_dir / name).write_text(text)

    def configuration(self) -> str:
        """Returns the text of rabbitmq.conf."""
        return "\n".join(
            [
                f"listeners.tcp.1 = 127.0.0.1:{self.port}",
                "management.tcp.ip = 127.0.0.1",
                f"management.tcp.port = {self.management_port}",
                "log.console = false",
                "log.file = rabbitmq.log",
                *self._tls_configuration(),
                "",
            ]
        )

    def _tls_configuration(self) -> list[str]:
        if self._tls is None:
            return []
        files = {"cacertfile": self._tls.ca, "certfile": self._tls.cert, "keyfile": self._tls.key}
        return [
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
            "management.ssl.ip = 127.0.0.1",
            f"management.ssl.port = {self.management_tls_port}",
            *(f"{part}.{name} = {path}" for part in ("ssl_options", "management.ssl") for name, path in files.items()),
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = true",
        ]
