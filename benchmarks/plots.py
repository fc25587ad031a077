"""Draws plots as SVG. Pure: the same content gives the same file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final, NamedTuple

_WIDTH, _HEIGHT = 760, 380
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 52, 200, 50
_BAR, _LABELS = 22, 240  # px: a bar with the space below it, and the label at its left
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")

Points = Sequence[tuple[float, float]]


class Axis(NamedTuple):
    """An axis. `place` maps a value to 0-1 of its length. `ticks` are values with their labels."""

    title: str
    place: Callable[[float], float]
    ticks: Sequence[tuple[float, str]]


def linear(title: str, values: Sequence[float]) -> Axis:
    """Makes an axis from 0 to a round value that is at least the highest."""
    top = max([*values, 0.0]) or 1.0
    step = _round_step(top / 5)
    ticks = [step * at for at in range(ceil(top / step - 1e-9) + 1)]
    return Axis(title, lambda value: value / ticks[-1], [(tick, short(tick)) for tick in ticks])


def logarithmic(title: str, values: Sequence[float]) -> Axis:
    """Makes an axis of powers of ten around the values. Values below 0.1, such as 0, are drawn at 0.1."""
    positive = [max(value, 0.1) for value in values] or [1.0]
    low, high = floor(log10(min(positive))), ceil(log10(max(positive)))
    high = max(high, low + 1)
    ticks = [10.0**power for power in range(low, high + 1)]
    return Axis(
        title,
        lambda value: (log10(max(value, 0.1)) - low) / (high - low),
        [(tick, short(tick)) for tick in ticks],
    )


def percents(title: str) -> Axis:
    """Makes an axis of 0-100 %, stretched towards 100 to show rare values: 90, 99 and 99.9 have equal distances."""

    def place(percent: float) -> float:
        return min(1.0, -log10(max(1 - percent / 100, 1e-3)) / 3)

    return Axis(title, place, [(tick, f"{tick:g}") for tick in (0, 50, 90, 99, 99.9)])


def lines(title: str, x: Axis, y: Axis, series: Mapping[str, Points]) -> str:
    """Draws a line for each series, with its name next to the plot."""
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(point: tuple[float, float]) -> tuple[float, float]:
        return _LEFT + x.place(point[0]) * across, _TOP + (1 - y.place(point[1])) * down

    parts = [_text(_LEFT, 22, title, weight="bold")]
    for value, label in y.ticks:
        _, height = at((0, value))
        parts += [_line(_LEFT, height, _LEFT + across, height), _text(_LEFT - 8, height + 4, label, anchor="end")]
    for value, label in x.ticks:
        place, _ = at((value, 0))
        parts += [_line(place, _TOP, place, _TOP + down), _text(place, _TOP + down + 18, label, anchor="middle")]
    parts.append(_text(_LEFT + across / 2, _HEIGHT - 10, x.title, anchor="middle"))
    parts.append(_text(_LEFT, _TOP - 6, y.title))
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in map(at, points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(_WIDTH - _RIGHT + 16, _TOP + 14 + 20 * number, name, colour=colour))
    return _svg(_HEIGHT, parts)


def bars(title: str, groups: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """Draws a bar for each group. The parts of a group follow each other, and the sum is at the end of the bar."""
    parts_named = list(dict.fromkeys(name for group in groups.values() for name in group))
    colours = dict(zip(parts_named, _COLOURS * (1 + len(parts_named) // len(_COLOURS)), strict=False))
    most = max([sum(group.values()) for group in groups.values()] + [1e-9])
    across = _WIDTH - _LABELS - 90
    parts = [_text(10, 22, f"{title} ({unit})", weight="bold")]
    top = 36
    if len(parts_named) > 1:
        place = 10.0
        for name, colour in colours.items():
            parts.append(_text(place, 44, name, colour=colour))
            place += 9 * len(name) + 20
        top = 58
    for number, (label, group) in enumerate(groups.items()):
        height, place = top + number * _BAR, float(_LABELS)
        parts.append(_text(_LABELS - 8, height + 13, label, anchor="end"))
        for name, value in group.items():
            width = value / most * across
            parts.append(f'<rect x="{place:.1f}" y="{height}" width="{width:.1f}" height="16" fill="{colours[name]}"/>')
            place += width
        parts.append(_text(place + 6, height + 13, short(sum(group.values()))))
    return _svg(top + len(groups) * _BAR + 12, parts)


def short(value: float) -> str:
    """Formats a value with its significant digits only."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:g}M" if value % 1e5 == 0 else f"{value / 1e6:.1f}M"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


def _round_step(least: float) -> float:
    power = 10.0 ** floor(log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "", colour: str = "#222") -> str:
    heavy = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{heavy}>{escape(text)}</text>'


def _svg(height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", ""])
