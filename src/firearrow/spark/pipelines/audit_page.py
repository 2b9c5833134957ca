"""The report of an audit as one HTML page with a plot, readable without any other file. Pure.

The plot is SVG written by hand: bars of findings over hours, one panel a topic. A library that draws it would weigh
more than everything else the job needs; see the decision in ``docs/adr``.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from firearrow.spark.pipelines.audit import KINDS

COLOURS: Final = {
    "lost": "#c1121f", "duplicated": "#e07a1f", "late": "#d4a017", "reordered": "#6a4c93", "unread": "#8d99ae",
}  # fmt: skip
PANEL_HEIGHT: Final = 140
BAR_WIDTH: Final = 18
LEFT: Final = 60

HourRow = Mapping[str, Any]


def page(rows: Sequence[HourRow], title: str = "Audit") -> str:
    """The page of a report: rows of topic, hour, sent, stored and a count of each kind."""
    topics = list(dict.fromkeys(str(row["topic"]) for row in rows))
    panels = "".join(_panel(topic, [row for row in rows if row["topic"] == topic]) for topic in topics)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
        "td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}td:first-child{text-align:left}"
        f"</style><h1>{escape(title)}</h1><p>{_legend()}</p>{panels}{_table(rows)}</html>"
    )


def _legend() -> str:
    return " ".join(f'<span style="color:{COLOURS[kind]}">&#9632; {kind}</span>' for kind in KINDS)


def _panel(topic: str, rows: Sequence[HourRow]) -> str:
    highest = max((sum(int(row[kind]) for kind in KINDS) for row in rows), default=0)
    scale = PANEL_HEIGHT / highest if highest else 0.0
    bars = "".join(_bar(place, row, scale) for place, row in enumerate(rows))
    width = LEFT + BAR_WIDTH * max(1, len(rows)) + 20
    axis = (
        f'<text x="{LEFT - 6}" y="12" text-anchor="end" font-size="11">{highest:,}</text>'
        f'<text x="{LEFT - 6}" y="{PANEL_HEIGHT}" text-anchor="end" font-size="11">0</text>'
        f'<line x1="{LEFT}" y1="{PANEL_HEIGHT}" x2="{width - 20}" y2="{PANEL_HEIGHT}" stroke="#333"/>'
    )
    ends = ""
    if rows:
        first, last = escape(str(rows[0]["hour"])), escape(str(rows[-1]["hour"]))
        ends = f'<text x="{LEFT}" y="{PANEL_HEIGHT + 16}" font-size="11">{first} - {last}</text>'
    return (
        f"<h2>{escape(topic)}</h2>"
        f'<svg width="{max(width, 420)}" height="{PANEL_HEIGHT + 24}" role="img">{axis}{bars}{ends}</svg>'
    )


def _bar(place: int, row: HourRow, scale: float) -> str:
    top, parts = float(PANEL_HEIGHT), []
    for kind in KINDS:
        count = int(row[kind])
        height = count * scale
        top -= height
        if count:
            hint = escape(f"{row['hour']}: {count:,} {kind}")
            parts.append(
                f'<rect x="{LEFT + place * BAR_WIDTH + 2}" y="{top:.1f}" width="{BAR_WIDTH - 4}" '
                f'height="{height:.1f}" fill="{COLOURS[kind]}"><title>{hint}</title></rect>'
            )
    return "".join(parts)


def _table(rows: Sequence[HourRow]) -> str:
    columns = ("topic", "hour", "sent", "stored", *KINDS)
    head = "".join(f"<th>{name}</th>" for name in columns)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row[name]))}</td>" for name in columns) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{lines}</table>"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
