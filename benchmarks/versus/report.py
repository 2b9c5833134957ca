"""The reports of the arena: a table, a file of all figures, a picture."""

import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.kept import Kept
from benchmarks.store.machine import _cpu, _file_system, _version, sync_microseconds
from benchmarks.versus.clients import CLIENT_FLAGS, EXAMPLES_VERSION
from benchmarks.versus.contestants import FLOOR, OURS, QUEUES, RUNBROKER_FLAGS, WORKERS
from benchmarks.versus.measure import Turn
from benchmarks.versus.rows import ROWS
from judges.install.java import MEASURED
from judges.servers import MEASURED_BROKER_HEAP

Turns = dict[str, dict[str, list[Turn]]]
"""By row, then by contestant."""


class Figures(Kept):
    """The file: kept after every turn, so that a run can go on where another ended."""

    heading: list[str] = msgspec.field(default_factory=list)
    turns: Turns = msgspec.field(default_factory=dict)

    def add(self, row: str, contestant: str, turn: Turn) -> None:
        """One more turn."""
        self.turns.setdefault(row, {}).setdefault(contestant, []).append(turn)

    def count(self, row: str, contestant: str) -> int:
        """Return the number of turns."""
        return len(self.turns.get(row, {}).get(contestant, []))


def heading(
    directory: str, rounds: int, lead_s: float, seconds: float, warm_up_s: float, warm_ours_s: float
) -> list[str]:
    """Everything that the figures depend on."""
    p50, p99 = sync_microseconds(directory)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    broker = " ".join((*MEASURED, *MEASURED_BROKER_HEAP, *RUNBROKER_FLAGS))
    return [
        (
            f"{_cpu()}, {os.cpu_count()} CPUs, Linux {platform.release()}, {_file_system(directory)}, "
            f"fdatasync p50 {p50 / 1000:.2f} ms p99 {p99 / 1000:.2f} ms"
        ),
        f"Python {platform.python_version()}, uvloop {_version('uvloop')}, msgspec {_version('msgspec')}, {java}",
        f"clients: rocketmq-example {EXAMPLES_VERSION}, {' '.join(CLIENT_FLAGS)}; topic of {QUEUES} queues",
        f"Apache's broker: {broker} (runbroker.sh, the heap lowered from 8g)",
        (
            f"{rounds} rounds in turns, {lead_s:.0f} s for the client to run in, {seconds:.0f} s measured, "
            f"Apache's broker warmed up for {warm_up_s:.0f} s, ours for {min(warm_up_s, warm_ours_s):.0f} s; "
            f"the one that is not measured is stopped"
        ),
    ]


def middle(turns: list[Turn], name: str) -> float:
    """The median of one figure."""
    return float(median(getattr(turn, name) for turn in turns))


def _spread(turns: list[Turn]) -> str:
    rates = [turn.rate for turn in turns]
    return f"{median(rates):>9,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"


def table(figures: Figures) -> list[str]:
    """The rows as lines of Markdown: medians, with the spread of the rates."""
    lines = [
        "| row | broker | messages/s (least-most) | x | CPU us each | x | CPU s | RSS MiB | RssAnon MiB | p50/p99 ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key, row in ROWS.items():
        of_row = figures.turns.get(key, {})
        rivals = _rivals(of_row)
        for name, turns in of_row.items():
            against = of_row[rivals[0]] if rivals and name != rivals[0] else None
            rate = f"{middle(turns, 'rate') / middle(against, 'rate'):.2f}" if against else ""
            cost = f"{middle(turns, 'cpu_us') / middle(against, 'cpu_us'):.2f}" if against else ""
            delays = f"{middle(turns, 'p50_ms'):.2f} / {middle(turns, 'p99_ms'):.2f}" if turns[0].p99_ms else ""
            failed = f", {sum(turn.failed for turn in turns)} failed" if any(turn.failed for turn in turns) else ""
            lines.append(
                f"| {row.name}{failed} | {name} | {_spread(turns)} | {rate} | {middle(turns, 'cpu_us'):.1f} | {cost} | "
                f"{middle(turns, 'cpu_s'):.1f} of {middle(turns, 'window_s'):.0f} | {middle(turns, 'rss_mib'):,.0f} | "
                f"{middle(turns, 'anon_mib'):,.0f} | {delays} |"
            )
    return lines


def plot(figures: Figures, path: Path) -> bool:
    """Draw rates and costs as multiples of Apache's; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [key for key in ROWS if _pair(figures, key)]
    if not rows:
        return False
    figure, (rates, costs) = pyplot.subplots(1, 2, figsize=(12, 1.2 + 0.4 * len(rows)), sharey=True)
    for axes, name, title in ((rates, "rate", "messages a second"), (costs, "cpu_us", "broker CPU a message")):
        ratios = [_ratio(figures, key, name) for key in rows]
        axes.barh([ROWS[key].name for key in rows], ratios, color="tab:orange")
        axes.axvline(1.0, color="black", linewidth=1)
        axes.set_title(f"{title}, Apache's broker = 1")
        for place, ratio in enumerate(ratios):
            axes.text(ratio, place, f" {ratio:.2f}", va="center", fontsize=8)
    rates.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True


def _pair(figures: Figures, key: str) -> tuple[list[Turn], list[Turn]] | None:
    of_row = figures.turns.get(key, {})
    rivals, ours = _rivals(of_row), [name for name in (WORKERS, OURS) if name in of_row]
    return (of_row[ours[0]], of_row[rivals[0]]) if ours and rivals else None


def _rivals(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in (OURS, WORKERS, FLOOR)]


def _ratio(figures: Figures, key: str, name: str) -> float:
    pair = _pair(figures, key)
    assert pair is not None
    return middle(pair[0], name) / middle(pair[1], name)
