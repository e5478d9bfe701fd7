"""The report's page: escaping, numbers in words, and the one style sheet. No script, no network, light and dark."""

import html
import re
import unicodedata
from pathlib import Path

STYLE = (Path(__file__).parent / "style.css").read_text(encoding="ascii")


def page(title: str, body: str) -> str:
    """A whole HTML document. The policy in its head forbids scripts and every request, whatever ends up in `body`."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def escape(value: object) -> str:
    """Text from anywhere, a model included, as HTML text or attribute value.

    Characters that are invisible or reorder the line (controls, lone surrogates, bidirectional marks) are spelt out, so
    what is shown is what was there.
    """
    text = re.sub(r"[^\n\t -~]", _spell_out, str(value))
    return html.escape(text, quote=True)


def _spell_out(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"\\u{ord(character):04x}"
    return character


def percent(share: float) -> str:
    """0.4523 -> 45.2 %."""
    return f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """Difference of two shares in percentage points, with its sign, coloured: up is good."""
    text = f"{100 * difference:+.1f}"
    tone = "" if text in ("+0.0", "-0.0") else ' class="up"' if difference > 0 else ' class="down"'
    return f"<span{tone}>{text}</span>"


def number(value: object) -> str:
    """A number short enough to read: 1,234 or 0.0312 or 2.1e-06; anything else is escaped text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escape(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2g}" if abs(value) < 1 else f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(head: list[str], rows: list[list[str]], numeric: set[int] | frozenset[int] = frozenset()) -> str:
    """Cells are HTML already; columns in `numeric` are set to the right."""

    def row(cells: list[str], tag: str) -> str:
        aligned = (f"{tag} class='n'" if column in numeric else tag for column in range(len(cells)))
        return "".join(f"<{opening}>{cell}</{tag}>" for opening, cell in zip(aligned, cells, strict=True))

    lines = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    return f'<div class="scroll"><table><tr>{row(head, "th")}</tr>{lines}</table></div>'
