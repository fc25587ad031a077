"""Checks RabbitMQ by the facts that AMQP shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bridge.cli.doctor.checks.check import Check, Fault, Verdict, listed, over
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.management import Managed
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.rabbitmq import Broker, Nodes

_NOTHING_DECLARED: Final = Missing("nothing is declared yet; the first bridge declares it")


def _broker(facts: Facts) -> Broker | Missing:
    return facts.nodes if isinstance(facts.nodes, Missing) else facts.nodes.broker


def _of_nodes(kind: Callable[[Nodes], Mapping[str, str]]) -> Callable[[Nodes], Iterator[Fault]]:
    def judge(nodes: Nodes) -> Iterator[Fault]:
        for where, why in kind(nodes).items():
            yield Fault(f"RabbitMQ at {where}: {why}", "warning" if nodes.answered else "error")

    return judge


def unsuitable(broker: Broker) -> Iterator[Fault]:
    for finding in broker.unsuitable:
        yield Fault(f"{finding.name} is {finding.found}; it must be {finding.required}")


def configure(broker: Broker) -> Iterator[Fault]:
    if broker.barred:
        starts = listed(f"{start}*" for start in broker.barred)
        yield Fault(f"the user may not configure {starts}", "error" if broker.missing else "warning")


def write(broker: Broker) -> Iterator[Fault]:
    if broker.taken == "refused":
        yield Fault("the user may not write to the default exchange (amq.default)")


def alarms(facts: Facts) -> Verdict:
    broker, management = _broker(facts), facts.management
    answer = management.answers["alarms"] if isinstance(management, Managed) else _NOTHING_DECLARED
    raised = () if isinstance(answer, Missing) else answer.get("alarms", ())
    if raised:
        return [Fault(f"{alarm['node']}: {alarm['resource']} alarm") for alarm in raised]
    if isinstance(broker, Missing):
        return broker if isinstance(answer, Missing) else ()
    return [Fault("RabbitMQ blocks publishers")] if broker.taken == "blocked" else ()


def missing(broker: Broker) -> Iterator[Fault] | Missing:
    if not broker.existing:
        return _NOTHING_DECLARED
    beyond = [lane.entry for lane in broker.names.each_lane[broker.lanes :]]
    absent = [
        name for name in broker.missing if not any(name == lane or name.startswith(f"{lane}.") for lane in beyond)
    ]
    return iter([Fault(f"missing objects: {listed(absent)}")] if absent else ())


def lanes(broker: Broker) -> Iterator[Fault] | Missing:
    if not broker.existing:
        return _NOTHING_DECLARED
    declared, own = broker.lanes, broker.names.lanes
    found = f"the number of declared lanes is {declared}, and BRIDGE_LANES is {own}"
    return iter([Fault(found, "warning")] if declared != own else ())


def former(broker: Broker) -> Iterator[Fault]:
    if broker.former:
        yield Fault(f"the slot {listed(broker.former)} of an earlier version exists")


def refused(broker: Broker) -> Iterator[Fault]:
    if broker.refused:
        yield Fault(f"messages in {broker.names.refused}: {broker.refused:,}", "warning")


def unroutable(broker: Broker) -> Iterator[Fault]:
    if broker.unroutable:
        yield Fault(f"messages in {broker.names.unroutable}: {broker.unroutable:,}", "warning")


CHECKS: Final = (
    Check(
        number=201,
        title="RabbitMQ does not answer",
        cause="A node of `BRIDGE_AMQP_URL` is stopped or frozen, or the address, a firewall or TLS is wrong.",
        effect="Without any node, sends and pulls answer 503, and due messages wait.",
        remedy="Start RabbitMQ, or correct host, port and scheme in `BRIDGE_AMQP_URL`.",
        decide=over(lambda facts: facts.nodes, _of_nodes(lambda nodes: nodes.away)),
    ),
    Check(
        number=202,
        title="RabbitMQ refuses the login",
        cause="The user of `BRIDGE_AMQP_URL` does not exist, or has another password. `guest` works on loopback only.",
        effect="Sends and pulls answer 503, and due messages wait.",
        remedy="Correct user and password, with percent-encoding, or run `rabbitmqctl change_password`.",
        decide=over(lambda facts: facts.nodes, _of_nodes(lambda nodes: nodes.login)),
    ),
    Check(
        number=203,
        title="The virtual host can't be used",
        cause="The virtual host of `BRIDGE_AMQP_URL` does not exist, or the user has no rights in it.",
        effect="Sends and pulls answer 503, and due messages wait.",
        remedy="Run `rabbitmqctl add_vhost` and `rabbitmqctl set_permissions`, or correct the URL.",
        decide=over(lambda facts: facts.nodes, _of_nodes(lambda nodes: nodes.virtual_host)),
    ),
    Check(
        number=204,
        title="RabbitMQ can't keep the promises",
        cause="Its version is too old or broken, or a feature flag such as `stream_queue` is disabled.",
        effect="`serve` ends with exit code 3. Without `stream_queue`, RabbitMQ loses dead letters silently.",
        remedy="Run `rabbitmqctl enable_feature_flag all`, or take a version of docs/versions.md.",
        decide=over(_broker, unsuitable),
    ),
    Check(
        number=205,
        title="The user may not configure",
        cause="The permissions of the user lack the right to configure names of the bridge.",
        effect="A missing exchange or queue stays missing. A message of a new topic is refused.",
        remedy="Run `rabbitmqctl set_permissions USER '.*' '.*' '.*'`, or `delaybridge topology apply` as an admin.",
        decide=over(_broker, configure),
    ),
    Check(
        number=206,
        title="The user may not publish",
        cause="The permissions of the user lack the right to write to the default exchange.",
        effect="No message is released.",
        remedy="Run `rabbitmqctl set_permissions USER '.*' '.*' '.*'` for the virtual host.",
        decide=over(_broker, write),
    ),
    Check(
        number=207,
        title="RabbitMQ blocks publishers",
        cause="A node has an alarm: its memory is above the limit, or its free disk below.",
        effect="Sends and pulls answer 503, and due messages wait. Nothing is lost.",
        remedy="Free memory or disk, or raise the limit. Only AMQP consumers can empty ready queues meanwhile.",
        decide=alarms,
    ),
    Check(
        number=208,
        title="Objects are missing",
        cause="Somebody has deleted exchanges or queues, and no bridge has run since.",
        effect="Messages that need them wait, and those of a deleted queue are lost.",
        remedy="Start a bridge, or run `delaybridge topology apply`. Then run `delaybridge audit`.",
        decide=over(_broker, missing),
    ),
    Check(
        number=209,
        title="Another number of lanes is declared",
        cause="`BRIDGE_LANES` differs from the lanes on RabbitMQ: from other bridges, or from before a change.",
        effect="AMQP clients with another number send messages to lanes that fewer bridges know.",
        remedy="Give all bridges the same number. `delaybridge topology drain` moves lanes that are too many.",
        decide=over(_broker, lanes),
    ),
    Check(
        number=210,
        title="Slots of an earlier version exist",
        cause="A bridge of an earlier version runs, or ran, under the same prefix. Its slots have other names.",
        effect="Each message would wait in a slot of both. `serve` ends with exit code 3.",
        remedy="Stop those bridges, and move the messages with `delaybridge topology drain`.",
        decide=over(_broker, former),
    ),
    Check(
        number=211,
        title="Messages were refused",
        cause="An AMQP client has published messages that no bridge can use. Their header `x-delay-reason` says why.",
        effect="No consumer gets them.",
        remedy="Repair the client. Then publish the messages again with a valid key, or purge the queue.",
        decide=over(_broker, refused),
    ),
    Check(
        number=212,
        title="Targets took no messages",
        cause="The exchange of due messages is missing, or has no queue for their routing key, or refuses the bridge's "
        "user.",
        effect="The messages are dead letters of their topics.",
        remedy="Declare or bind what the header `x-delay-reason` names. Then replay the letters.",
        decide=over(_broker, unroutable),
    ),
)
