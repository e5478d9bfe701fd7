"""Charts of `telemetry.charts` as one SVG file that shows itself without the report's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pivotrl.telemetry.charts import COLOURS, HEIGHT, WIDTH, Series, line_chart
from pivotrl.telemetry.page import escape

_PALETTE = ("#2f6fed", "#d9480f", "#2b8a3e", "#862e9c", "#c92a2a", "#0b7285", "#b8860b", "#5c6773")
assert len(_PALETTE) == COLOURS
_GAP, _TITLE, _FOOT, _LEGEND_LINE = 24, 26, 18, 16
_STYLE = (
    f"svg{{{''.join(f'--c{n}:{colour};' for n, colour in enumerate(_PALETTE))}--line:#e3e3e3;overflow:visible}}"
    "text{font:11px sans-serif;fill:#555}.title{font-weight:bold;font-size:12px;fill:#222}"
)


@dataclass(frozen=True)
class Panel:
    """One chart: lines in the order of `series`, and what its axes show. `low` and `high` widen the y axis."""

    title: str
    x_label: str
    series: Mapping[str, Series]
    low: float | None = None
    high: float | None = None
    marks: bool = False


def figure(panels: Sequence[Panel], columns: int = 2) -> str:
    """The panels in rows of `columns`, with a legend under each, as the text of an SVG file."""
    legend = _LEGEND_LINE * max(-(-len(panel.series) // 2) for panel in panels)
    width, height = WIDTH + _GAP, _TITLE + HEIGHT + _FOOT + legend + _GAP
    rows = -(-len(panels) // columns)
    body = "".join(
        f'<g transform="translate({n % columns * width},{n // columns * height})">{_panel(panel)}</g>'
        for n, panel in enumerate(panels)
    )
    view = f"0 0 {min(columns, len(panels)) * width} {rows * height}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'
    )


def _panel(panel: Panel) -> str:
    chart = line_chart(panel.series, panel.low, panel.high, marks=panel.marks)
    if not chart.startswith("<svg"):
        raise ValueError(f"the chart {panel.title!r} has no values")
    drawn = chart[: chart.rindex("</svg>") + len("</svg>")]
    sized = drawn.replace("<svg ", f'<svg y="{_TITLE}" width="{WIDTH}" height="{HEIGHT}" ', 1)
    foot = _TITLE + HEIGHT + 8
    parts = [
        f'<text class="title" x="8" y="17">{escape(panel.title)}</text>{sized}',
        f'<text x="{WIDTH - 8}" y="{foot}" text-anchor="end">{escape(panel.x_label)}</text>',
    ]
    for index, name in enumerate(panel.series):
        x, y = 8 + index % 2 * 177, foot + _FOOT + index // 2 * _LEGEND_LINE
        parts.append(f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="var(--c{index % COLOURS})"/>')
        parts.append(f'<text x="{x + 13}" y="{y}">{escape(name)}</text>')
    return "".join(parts)
