"""Writes the report of a benchmark, the figures in docs/benchmarks.md and their plots, from its document. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any, Final

from benchmarks import plots
from benchmarks.figures import Row

Found = Mapping[str, Any]
_MET: Final = {True: "met", False: "**missed**", None: ""}
_CPU: Final = " cpu "
_PEER_COLUMNS: Final = ("single", "batches of 100", "cycle", "late p50", "late p99")
_OURS: Final = {
    "single": "sends single best",
    "batches of 100": "sends in batches of 100, one delay best",
    "cycle": "cycle http best",
    "late p50": "lateness from schedule p50",
    "late p99": "lateness from schedule p99",
}
_OURS_ACCEPTED: Final = "a quorum queue has confirmed it and Redis has its record, both on the disk"
_CONDITIONS: Final = (
    "All bodies are 200 bytes of JSON. Servers, bridges and clients share the machine. Redis and RabbitMQ write to the "
    "disk before they answer."
)
_BEGIN: Final = "<!-- `make bench` writes these figures -->\n\n"
_END: Final = "\n<!-- end of the figures -->"


def line(row: Row) -> str:
    """Formats a row for the terminal."""
    if row.value is None:
        return f"{row.name:<48} not run: {row.not_run}"
    goal = "" if row.goal is None else f"{row.goal}"
    met = {True: "met", False: "missed", None: ""}[row.met]
    return f"{row.name:<48}{number(row.value):>12} {row.unit:<12}{goal:<10}{met}".rstrip()


def page(found: Found, before: Found | None = None) -> str:
    """Returns the report: all rows. With `before`, it compares them with those of another document, row by row."""
    parts = ["# Benchmarks", _CONDITIONS, *_measured(found)]
    parts += _goals(found)
    if found.get("peers"):
        parts += _peers(found)
    if before is not None:
        parts += _before_and_after(before, found)
    cpu = [row for row in found["rows"] if _CPU in row["row"] and row["value"] is not None]
    if cpu:
        parts += ["## CPU", "CPU seconds of each part for 1,000 messages.", "![CPU](plots/cpu.svg)", _cpu_table(cpu)]
    for name, says in found["runs"].items():
        parts += _run(found, name, says)
    return "\n\n".join(map(_wrapped, parts)) + "\n"


def has_figures(document: str) -> bool:
    """Returns whether a document has the marks between which `with_figures` writes."""
    return 0 <= document.find(_BEGIN) < document.find(_END)


def with_figures(document: str, found: Found) -> str:
    """Returns a document that has marks, with the machine, the goals and the peers of a benchmark between them."""
    before, _, rest = document.partition(_BEGIN)
    parts = ["## The machine", *_measured(found), *_goals(found), *(_peers(found) if found.get("peers") else [])]
    drawn = drawings(found)
    plotted = [f"![{name}](plots/{name}.svg)" for name in ("lateness", "memory", "cpu") if f"{name}.svg" in drawn]
    parts += ["## Plots", "\n".join(plotted)] if plotted else []
    return before + _BEGIN + "\n\n".join(map(_wrapped, parts)) + "\n" + _END + rest.partition(_END)[2]


def drawings(found: Found) -> dict[str, str]:
    """Returns SVG files by their names."""
    drawn = {}
    cpu: dict[str, dict[str, float]] = {}
    for row in found["rows"]:
        run, apart, part = row["row"].partition(_CPU)
        if apart and row["value"] is not None and not run.startswith("lone"):
            cpu.setdefault(run, {})[part] = max(0.0, row["value"])
    if cpu:
        drawn["cpu.svg"] = plots.bars("CPU seconds for 1,000 messages", cpu, "s")
    series = {one["name"]: one for one in found.get("series", [])}
    for name, title in {
        "lateness": "How late messages are",
        "peers": "How late the messages of each are, from the planned moment of the send",
    }.items():
        if name in series:
            drawn[f"{name}.svg"] = _curves(title, series[name]["lines"])
    if "memory" in series and series["memory"]["lines"]:
        waiting = _points(series["memory"]["lines"])
        x = plots.linear("messages waiting", [x for points in waiting.values() for x, _ in points])
        y = plots.linear("MiB", [y for points in waiting.values() for _, y in points])
        drawn["memory.svg"] = plots.lines("Resident memory", x, y, waiting)
    if found.get("peers"):
        rows = _by_name(found)
        for what, file in {"single": "peers-single.svg", "cycle": "peers-cycle.svg"}.items():
            named = {"delaybridge": _OURS[what]} | {peer: f"peer {peer} {what}" for peer in found["peers"]}
            rates = {
                label: {"messages/s": rows[row]["value"]}
                for label, row in named.items()
                if row in rows and rows[row]["value"] is not None
            }
            drawn[file] = plots.bars("Single sends" if what == "single" else "Full cycle", rates, "messages/s")
    return drawn


def number(value: float) -> str:
    """Formats a value with its significant decimals only."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 or value == int(value) else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def _measured(found: Found) -> list[str]:
    """Says where and with what the figures were measured."""
    where = found["machine"]
    minutes = sum(found.get("took_s", {}).values()) / 60
    took = f", which took {minutes:.0f} minutes" if minutes else ""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return [
        f"{where['cpus']} x {where['cpu']}, {where['memory_gib']} GiB, {where['system']}. The load was "
        f"{where['load'][0]} at the end of the run{took}. Commit {found['commit'] or 'unknown'}.",
        f"{versions}.",
        *(["**A quick run: the figures mean nothing.**"] if found["quick"] else []),
    ]


def _wrapped(part: str) -> str:
    """Wraps prose at 120 columns. Leaves tables, headings and images as they are."""
    if part.startswith(("|", "#", "!")):
        return part
    return fill(part, 120, break_long_words=False, break_on_hyphens=False)


def _goals(found: Found) -> list[str]:
    judged = [row for row in found["rows"] if row["goal"] is not None]
    if not judged:
        return []
    missed = [row["row"] for row in judged if row["met"] is False]
    summary = f"Missed: {', '.join(missed)}." if missed else "Every measured goal is met."
    return ["## Goals", summary, _table(judged)]


def _peers(found: Found) -> list[str]:
    rows = _by_name(found)
    head = f"| queue | {' | '.join(_PEER_COLUMNS)} | accepted means |\n| --- |{' ---: |' * len(_PEER_COLUMNS)} --- |"
    body = [f"| **delaybridge** | {_cells(rows, _OURS)} | {_OURS_ACCEPTED} |"]
    for peer, accepted in found["peers"].items():
        names = {what: f"peer {peer} {what}" for what in _PEER_COLUMNS}
        body.append(f"| {peer} | {_cells(rows, names)} | {accepted} |")
    why = {row["not_run"] for row in found["rows"] if row["row"].startswith("peer ") and row["value"] is None}
    return [
        "## Beside peers",
        "Rates are messages a second, lateness is in ms. The bridge runs with its best number of processes.",
        "\n".join([head, *body]),
        *(["Not run: " + "; ".join(sorted(why)) + "."] if why else []),
        "![single sends](plots/peers-single.svg)\n![full cycle](plots/peers-cycle.svg)",
        *(["![lateness of the peers](plots/peers.svg)"] if "peers.svg" in drawings(found) else []),
    ]


def _cells(rows: Mapping[str, Any], names: Mapping[str, str]) -> str:
    found = (rows.get(names[what]) for what in _PEER_COLUMNS)
    return " | ".join("-" if row is None or row["value"] is None else number(row["value"]) for row in found)


def _before_and_after(before: Found, after: Found) -> list[str]:
    former, latter = _by_name(before), _by_name(after)
    body = []
    for name in [*latter, *(name for name in former if name not in latter)]:
        if _CPU in name or name.startswith("peer "):
            continue
        one, other = former.get(name), latter.get(name)
        if one is None and other is not None and other["goal"] is None:
            continue
        unit = (other or one or {})["unit"]
        values = [row["value"] if row is not None else None for row in (one, other)]
        shown = ["-" if value is None else number(value) for value in values]
        ratio = f"{values[1] / values[0]:.2f}x" if values[0] and values[1] is not None else ""
        loops = " / ".join(_loop_ms(document, name.split()[0]) for document in (before, after))
        body.append(f"| {name} | {shown[0]} | {shown[1]} | {unit} | {ratio} | {loops} |")
    table = ["| row | before | after | unit | | loop, ms |", "| --- | ---: | ---: | --- | ---: | ---: |", *body]
    former_commit, latter_commit = (document["commit"] or "unknown" for document in (before, after))
    commits = f"Before is commit {former_commit}, after is {latter_commit}, on the same machine."
    note = before.get("note")
    return ["## Before and after", f"{commits} {note}" if note else commits, "\n".join(table)]


def _run(found: Found, name: str, says: str) -> list[str]:
    parts = [f"## {name}", f"{says} A fixed loop took {_loop_ms(found, name)} ms of CPU time around this run."]
    parts += [f"**{part} failed.** {why}" for part, why in found["failed"].items() if part.split()[0] == name]
    drawn = {"lateness": "lateness.svg", "backlog": "memory.svg"}.get(name)
    if drawn is not None and drawn in drawings(found):
        parts.append(f"![{name}](plots/{drawn})")
    rows = [row for row in found["rows"] if row["row"].split()[0] == name and _CPU not in row["row"]]
    return [*parts, _table(rows)] if rows else parts


def _loop_ms(found: Found, run: str) -> str:
    """The CPU time of a fixed loop around the run: how fast the machine was."""
    value = found.get("loop_ms", {}).get(run)
    return "-" if value is None else number(value)


def _cpu_table(rows: Sequence[Mapping[str, Any]]) -> str:
    by_run: dict[str, dict[str, float]] = {}
    for row in rows:
        run, _, part = row["row"].partition(_CPU)
        by_run.setdefault(run, {})[part] = row["value"]
    parts = list(dict.fromkeys(part for found in by_run.values() for part in found))
    head = [f"| run | {' | '.join(parts)} |", f"| --- |{' ---: |' * len(parts)}"]
    body = [
        f"| {run} | {' | '.join(number(found[part]) if part in found else '' for part in parts)} |"
        for run, found in by_run.items()
    ]
    return "\n".join(head + body)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["| row | value | unit | goal | |", "| --- | ---: | --- | --- | --- |"]
    return "\n".join(head + [_table_row(row) for row in rows])


def _table_row(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return f"| {row['row']} | not run | {row['unit']} | {row['goal'] or ''} | {row['not_run'].replace('|', '/')} |"
    return f"| {row['row']} | {number(row['value'])} | {row['unit']} | {row['goal'] or ''} | {_MET[row['met']]} |"


def _by_name(found: Found) -> dict[str, Any]:
    return {row["row"]: row for row in found["rows"]}


def _points(lines: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    return {name: [(point[0], point[1]) for point in points] for name, points in lines.items()}


def _curves(title: str, lines: Mapping[str, Any]) -> str:
    points = _points(lines)
    y = plots.logarithmic("ms late", [y for line in points.values() for _, y in line])
    return plots.lines(title, plots.percents("% of messages"), y, points)
