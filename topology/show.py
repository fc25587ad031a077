"""Prints a plan as text for a terminal."""

from topology.plan import Plan, Queue


def show(plan: Plan) -> str:
    """Returns the whole plan as text: exchanges with their bindings, then queues with their arguments."""
    lines = ["Exchanges"]
    for exchange in plan.exchanges:
        alternate = f", unbound keys go to {exchange.alternate}" if exchange.alternate else ""
        lines.append(f"  {exchange.name}  ({exchange.type}{alternate})")
        lines += _aligned(
            [
                (f"    --{binding.key}-->", f"{binding.destination_type} {binding.destination}")
                for binding in plan.bindings
                if binding.source == exchange.name
            ]
        )
    known = {exchange.name for exchange in plan.exchanges}
    other_bindings = [binding for binding in plan.bindings if binding.source not in known]
    if other_bindings:
        lines += ["", "Bindings of exchanges outside this plan"]
        lines += _aligned(
            [(f"  {b.source} --{b.key}-->", f"{b.destination_type} {b.destination}") for b in other_bindings]
        )
    lines += ["", f"Queues ({len(plan.queues)}, all quorum and durable)"]
    lines += _aligned([(f"  {queue.name}", _arguments(queue)) for queue in plan.queues])
    if plan.later:
        lines += ["", f"Queues that a bridge declares when it needs them ({len(plan.later)})"]
        lines += _aligned([(f"  {queue.name}", _arguments(queue)) for queue in plan.later])
    return "\n".join(lines)


def _arguments(queue: Queue) -> str:
    arguments = {key: value for key, value in queue.arguments.items() if key != "x-queue-type"}
    return "  ".join(f"{key.removeprefix('x-')}={value}" for key, value in sorted(arguments.items()))


def _aligned(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(left) for left, _ in rows), default=0)
    return [f"{left:<{width}}  {right}" for left, right in rows]
