"""The report of an audit as a PNG: bars of findings over hours, one panel a topic, as on its page.

Drawn by matplotlib (extra ``plot``), which is imported when a plot is asked for; no display is needed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from firearrow.spark.pipelines.audit import KINDS
from firearrow.spark.pipelines.audit_page import COLOURS, HourRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_INCHES: Final = 10.0
PANEL_INCHES: Final = 2.4
MOST_PANELS: Final = 20
"""The most topics with a panel, those with most findings; an image with thousands would not be readable."""
LABELS: Final = 8
FEWEST_PLACES: Final = 12


def draw(rows: Sequence[HourRow], path: str, title: str = "Audit") -> None:
    """Draw a report, rows as of the page, into a file."""
    from matplotlib.figure import Figure

    topics = _most_found(rows)
    shown = topics[:MOST_PANELS] or ["nothing was sent or stored"]
    figure = Figure(figsize=(WIDTH_INCHES, 0.8 + PANEL_INCHES * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for axes, topic in zip(panels, shown, strict=True):
        _panel(axes, topic, [row for row in rows if row["topic"] == topic])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(KINDS))
    left_out = f" ({len(topics) - len(shown)} topics with fewer findings left out)" if len(topics) > len(shown) else ""
    figure.suptitle(f"{title}: findings an hour{left_out}", x=0.01, ha="left")
    figure.savefig(path, dpi=110, format="png")


def _most_found(rows: Sequence[HourRow]) -> list[str]:
    found: dict[str, int] = {}
    for row in rows:
        found[str(row["topic"])] = found.get(str(row["topic"]), 0) + sum(int(row[kind]) for kind in KINDS)
    return sorted(found, key=lambda topic: (-found[topic], topic))


def _panel(axes: "Axes", topic: str, rows: Sequence[HourRow]) -> None:
    from matplotlib.ticker import MaxNLocator

    places = range(len(rows))
    bottoms = [0] * len(rows)
    for kind in KINDS:
        counts = [int(row[kind]) for row in rows]
        axes.bar(places, counts, bottom=bottoms, color=COLOURS[kind], label=kind)
        bottoms = [bottom + count for bottom, count in zip(bottoms, counts, strict=True)]
    step = max(1, -(-len(rows) // LABELS))
    axes.set_xticks(list(places)[::step], [str(row["hour"])[:16] for row in rows][::step], fontsize=7)
    axes.set_xlim(-0.7, max(len(rows), FEWEST_PLACES) - 0.3)
    axes.set_ylim(0, max(1, *bottoms) * 1.05 if bottoms else 1)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_title(topic, fontsize=10, loc="left")
