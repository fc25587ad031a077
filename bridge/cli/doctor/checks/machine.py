"""Checks the settings and this machine: environment, ports, limits and certificates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridge.cli.doctor.checks.check import Check, Fault, Verdict, over
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.machine import Machine
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.running import Running

FEWEST_DAYS: Final = 14


def wrong(facts: Facts) -> Verdict:
    return [Fault(complaint) for complaint in facts.wrong]


def unknown(facts: Facts) -> Verdict:
    return [Fault(complaint) for complaint in facts.unknown]


def access(machine: Machine) -> Iterator[Fault]:
    if machine.access is not None:
        yield Fault(machine.access)


def ports(facts: Facts) -> Verdict:
    if isinstance(facts.machine, Missing):
        return facts.machine
    if isinstance(facts.running, Running):
        return ()  # the bridge itself listens
    return [Fault(f"{address}: {why}") for address, why in facts.machine.taken.items()]


def open_files(machine: Machine) -> Iterator[Fault]:
    files = machine.files
    if files.allowed < files.wanted:
        yield Fault(
            f"a process may open {files.hard:,} files and needs {files.wanted:,}: it takes {files.connections:,}"
            " connections",
            "warning",
        )


def certificates(machine: Machine) -> Iterator[Fault]:
    for whose, days in machine.days_left.items():
        if days < 0:
            yield Fault(f"the certificate of {whose} has expired")
        elif days < FEWEST_DAYS:
            yield Fault(f"the certificate of {whose} expires in {days:.0f} days", "warning")


CHECKS: Final = (
    Check(
        number=101,
        title="A setting is wrong",
        cause="A variable or a secret file has a value that the bridge can't use.",
        effect="`serve` ends with exit code 2. Without settings no server can be checked.",
        remedy="Correct the value. docs/operating/settings.md has the forms and limits.",
        decide=wrong,
    ),
    Check(
        number=102,
        title="A setting is unknown",
        cause="A variable, or a file in `BRIDGE_SECRETS_DIR`, begins with `BRIDGE_` and is no setting.",
        effect="`serve` and the other commands end with exit code 2.",
        remedy="Correct the name, or remove the variable.",
        decide=unknown,
    ),
    Check(
        number=103,
        title="Nobody has decided who may call",
        cause="The bridge listens for other machines, and `BRIDGE_ACCESS` is not set.",
        effect="`serve` ends with exit code 2.",
        remedy="Create a token with `delaybridge token create`, and set `BRIDGE_ACCESS=tokens`.",
        decide=over(lambda facts: facts.machine, access),
    ),
    Check(
        number=104,
        title="A port can't be used",
        cause="Another program listens on the port, or the address is not one of this machine.",
        effect="`serve` ends with exit code 1.",
        remedy="Stop the other program (`ss -ltnp` names it), or set another `BRIDGE_HTTP_PORT` or `BRIDGE_HTTP_HOST`.",
        decide=ports,
    ),
    Check(
        number=105,
        title="A process may open too few files",
        cause="The hard limit of open files is below `BRIDGE_MAX_CONNECTIONS` and 256 more.",
        effect="The bridge takes fewer connections, and refuses the others.",
        remedy="Raise the limit (`ulimit -Hn`, systemd's `LimitNOFILE`), or lower `BRIDGE_MAX_CONNECTIONS`.",
        decide=over(lambda facts: facts.machine, open_files),
    ),
    Check(
        number=106,
        title="A certificate ends soon",
        cause=f"A certificate of the bridge, or of a server that it reaches by TLS, has less than {FEWEST_DAYS} days.",
        effect="After its end, clients or the bridge refuse every connection.",
        remedy="Renew the certificate, and restart the program that presents it.",
        decide=over(lambda facts: facts.machine, certificates),
    ),
)
