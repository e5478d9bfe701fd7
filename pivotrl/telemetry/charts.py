"""Charts as inline SVG: lines, stacked areas, histograms, bars. Hovering shows values, without a script.

A series is a list of (x, y) with y None where there is no value. Colours are CSS variables --c0 to --c7.
"""

import math
from collections.abc import Mapping, Sequence

from pivotrl.telemetry.page import escape, number

WIDTH, HEIGHT = 340, 170
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 24
COLOURS = 8
MAX_POINTS = 240
"""Longer series are averaged in equal runs of steps, which keeps the page small."""

Series = Sequence[tuple[float, float | None]]


def line_chart(
    series: Mapping[str, Series],
    low: float | None = None,
    high: float | None = None,
    marks: bool = False,
    over: str = "step",
) -> str:
    """One line a series over a common x axis, which `over` names. Above 25 points the raw values are faint behind a
    running mean. `marks` shows every point as a spot."""
    lines = {name: _thin(values) for name, values in series.items()}
    values = [y for line in lines.values() for _, y in line if y is not None]
    xs = [x for line in lines.values() for x, _ in line]
    if not values:
        return '<p class="soft">No values.</p>'
    frame = _Frame(min(xs), max(xs), *_nice_range(values, low, high))
    body = []
    for index, (name, line) in enumerate(lines.items()):
        shown = [(x, y) for x, y in line if y is not None]
        smooth = _smooth(shown) if len(shown) > 25 else None
        colour = f"var(--c{index % COLOURS})"
        body.append(_path(frame, shown, colour, 1.2 if smooth else 2, 0.3 if smooth else 1))
        if smooth:
            body.append(_path(frame, smooth, colour, 2, 1))
        body += [
            _dot(frame, x, y, colour, f"{name}, {over} {_tick_label(x)}", marks or len(shown) == 1) for x, y in shown
        ]
    picture = frame.draw("".join(body), whole=all(x == int(x) for x in xs))
    return picture + (_legend(list(lines)) if len(lines) > 1 else "")


def histogram(counts: Sequence[float], width: float, what: str, mark: float | None = None) -> str:
    """Bars over [0, width), [width, 2 width), ...; `what` names the counted things, `mark` is a line across at an x."""
    frame = _Frame(0, max(len(counts) * width, mark or 0), *_nice_range([0, *counts], 0.0, None))
    body = []
    for place, count in enumerate(counts):
        left, right, top = frame.x(place * width), frame.x((place + 1) * width), frame.y(count)
        title = escape(f"{number(place * width)} to {number((place + 1) * width)}: {number(count)} {what}")
        size = f'width="{max(right - left - 1, 0.5):.1f}" height="{HEIGHT - BOTTOM - top:.1f}"'
        body.append(f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="var(--c0)"><title>{title}</title></rect>')
    if mark is not None:
        x = frame.x(mark)
        stroke = 'stroke="var(--red)" stroke-width="2" stroke-dasharray="4 3"'
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" {stroke}/>')
    return frame.draw("".join(body), whole=width >= 1)


def stacked_chart(series: Mapping[str, Series]) -> str:
    """Areas on top of each other; all series have the same x values, missing y count as 0."""
    lines = {name: _thin([(x, y or 0.0) for x, y in values]) for name, values in series.items()}
    xs = [x for x, _ in next(iter(lines.values()), [])]
    if not xs:
        return '<p class="soft">No values.</p>'
    totals = [sum(line[i][1] for line in lines.values()) for i in range(len(xs))]
    frame = _Frame(min(xs), max(xs), *_nice_range(totals, 0.0, None))
    body, below = [], [0.0] * len(xs)
    for index, (name, line) in enumerate(lines.items()):
        above = [base + y for base, (_, y) in zip(below, line, strict=True)]
        edge = [*zip(xs, above, strict=True), *reversed([*zip(xs, below, strict=True)])]
        outline = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in edge)
        fill = f'fill="var(--c{index % COLOURS})" opacity=".8"'
        body.append(f'<polygon points="{outline}" {fill}><title>{escape(name)}</title></polygon>')
        below = above
    return frame.draw("".join(body)) + _legend(list(lines))


def stacked_bar(parts: Sequence[tuple[str, float, str]]) -> str:
    """One horizontal bar of (name, amount, CSS colour)."""
    total = sum(amount for _, amount, _ in parts) or 1
    left, boxes = 0.0, []
    for name, amount, colour in parts:
        width = 100 * amount / total
        title = escape(f"{name}: {number(amount)} ({width:.0f} %)")
        boxes.append(
            f'<rect x="{left:.2f}%" width="{width:.2f}%" height="16" fill="{colour}"><title>{title}</title></rect>'
        )
        left += width
    return f'<svg height="16" style="height:16px;border-radius:4px">{"".join(boxes)}</svg>'


def comparison_bar(before: float, after: float) -> str:
    """Two shares in [0, 1] on one track: a hollow mark before, a filled bar after."""
    before, after = min(max(before, 0.0), 1.0), min(max(after, 0.0), 1.0)
    tone = "var(--green)" if after >= before else "var(--red)"
    return (
        '<svg height="14" style="height:14px"><rect width="100%" height="14" rx="3" fill="var(--code)"/>'
        f'<rect width="{100 * after:.1f}%" height="14" rx="3" fill="{tone}" opacity=".75"/>'
        f'<rect x="{99.4 * before:.1f}%" width="3" height="14" fill="var(--ink)"/></svg>'
    )


def interval_bar(mean: float, low: float, high: float, against: float | None = None) -> str:
    """A share in [0, 1] with its interval on one track; `against` is a thin line at what it is compared with."""
    left, right = (min(max(value, 0.0), 1.0) for value in (low, high))
    line = "" if against is None else f'<rect x="{99.6 * against:.1f}%" width="2" height="14" fill="var(--ink)"/>'
    band = f'<rect x="{100 * left:.1f}%" width="{max(100 * (right - left), 0.4):.1f}%" y="3" height="8"'
    return (
        '<svg height="14" style="height:14px"><rect width="100%" height="14" rx="3" fill="var(--code)"/>'
        f'{band} rx="3" fill="var(--c0)" opacity=".45"/>'
        f'<rect x="{99.2 * min(max(mean, 0.0), 1.0):.1f}%" width="4" height="14" fill="var(--c0)"/>{line}</svg>'
    )


class _Frame:
    """Axes, grid and the map from data to pixels."""

    def __init__(self, x_low: float, x_high: float, y_low: float, y_high: float) -> None:
        self.x_low, self.x_high = x_low, x_high if x_high > x_low else x_low + 1
        self.y_low, self.y_high = y_low, y_high

    def x(self, value: float) -> float:
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - TOP - BOTTOM)

    def draw(self, body: str, whole: bool = True) -> str:
        """The picture; `whole`: only whole numbers are written at the x axis."""
        grid = []
        for tick in _ticks(self.y_low, self.y_high, 4):
            y = self.y(tick)
            grid.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
            grid.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_tick_label(tick)}</text>')
        for tick in _ticks(self.x_low, self.x_high, 6):
            if tick == int(tick) or not whole:
                x = self.x(tick)
                grid.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{_tick_label(tick)}</text>')
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(grid)}{body}</svg>'


def _path(frame: _Frame, line: Series, colour: str, width: float, opacity: float) -> str:
    place = "M" + "L".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in line)
    paint = f'fill="none" stroke="{colour}" stroke-width="{width}" opacity="{opacity}" stroke-linejoin="round"'
    return f'<path d="{place}" {paint}/>'


def _dot(frame: _Frame, x: float, y: float, colour: str, name: str, visible: bool) -> str:
    """A spot to hover over; where it is not `visible`, its line is."""
    title = escape(f"{name}: {number(float(y))}")
    paint = f'fill="{colour}"' if visible else 'fill="transparent"'
    return f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="4" {paint}><title>{title}</title></circle>'


def _legend(names: Sequence[str]) -> str:
    items = (
        f'<span><i style="background:var(--c{index % COLOURS})"></i>{escape(name)}</span>'
        for index, name in enumerate(names)
    )
    return f'<div class="legend">{"".join(items)}</div>'


def _thin(values: Series) -> list[tuple[float, float | None]]:
    size = math.ceil(len(values) / MAX_POINTS)
    if size <= 1:
        return list(values)
    thinned = []
    for start in range(0, len(values), size):
        chunk = values[start : start + size]
        known = [y for _, y in chunk if y is not None]
        thinned.append((chunk[len(chunk) // 2][0], sum(known) / len(known) if known else None))
    return thinned


def _smooth(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Mean over a window of a tenth of the points, centred, narrower at both ends."""
    half = max(1, len(line) // 20)
    smoothed = []
    for index, (x, _) in enumerate(line):
        reach = min(half, index, len(line) - 1 - index)
        window = [y for _, y in line[index - reach : index + reach + 1]]
        smoothed.append((x, sum(window) / len(window)))
    return smoothed


def _nice_range(values: Sequence[float], low: float | None, high: float | None) -> tuple[float, float]:
    least, most = min(values), max(values)
    bottom = least if low is None else min(low, least)
    top = most if high is None else max(high, most)
    if top <= bottom:
        spread = abs(top) * 0.1 or 1.0
        return (bottom if low is not None else bottom - spread), top + spread
    margin = 0.05 * (top - bottom)
    return (bottom if low is not None else bottom - margin), (top if high is not None else top + margin)


def _ticks(low: float, high: float, count: int) -> list[float]:
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.8)
    first = math.ceil(low / step - 1e-9)
    return [
        round(index * step, 12) if step > 1e-6 else index * step
        for index in range(first, math.floor(high / step + 1e-9) + 1)
    ]


def _tick_label(value: float) -> str:
    """0.25, 2,000, or 2.5e-7."""
    if value and abs(value) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
