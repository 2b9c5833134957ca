"""The figures as a table and as a picture."""

from pathlib import Path

from benchmarks.soak.figures import Figures, Latency
from benchmarks.soak.sides import APACHE, OURS


def table(figures: Figures) -> list[str]:
    """Lines of Markdown."""
    lines = [
        "| delivery without trouble | turns | p50 ms | p99 ms | p99 stock Java | p99 our client | over 0.5 s | /s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for side in (OURS, APACHE):
        turns = [turn for turn in figures.turns if turn.side == side]
        if turns:
            p50 = sorted(turn.whole.p50_ms for turn in turns)[len(turns) // 2]
            late = max(turn.whole.late for turn in turns)
            p99 = " | ".join(f"{figures.p99(side, kind) or 0:.2f}" for kind in ("whole", "java", "ours"))
            lines.append(
                f"| {side} | {len(turns)} | {p50:.2f} | {p99} | {late:.2%} | {min(turn.rate for turn in turns):,.0f} |"
            )
    ratios = [figures.ratio(OURS, APACHE, kind) for kind in ("whole", "java", "ours")]
    if ratios[0] is not None:
        lines.append(f"| ratio | | | {' | '.join(f'{ratio or 0:.2f}' for ratio in ratios)} | | |")
    return [*lines, "", *_soaked(figures)]


def _soaked(figures: Figures) -> list[str]:
    memory, descriptors = figures.thirds("anon_mib"), figures.thirds("descriptors")
    steady = figures.steady or Latency(0, 0.0, 0.0, 0.0, 0.0)
    happened = [what.rpartition(" ")[2] for _, what in figures.events if not what.startswith("broker")]
    rows = {
        "broker killed / restarted": f"{_count(figures, 'broker killed')} / {_count(figures, 'broker restarted')}",
        "consumers killed / restarted": f"{happened.count('killed')} / {happened.count('restarted')}",
        "messages acknowledged / sends failed": f"{figures.acknowledged:,} / {figures.failed_sends:,}",
        "lost, by group": _listed(figures.lost),
        "delivered more than once, by group": _listed(figures.repeated),
        "exceptions, by log": _listed(figures.exceptions),
        "acknowledged a second, broker alive": f"{figures.steady_rate:,.0f} of {figures.rate:,}",
        "delivery p50 / p99 / longest, broker alive, consumers dying": (
            f"{steady.p50_ms:.2f} / {steady.p99_ms:.2f} / {steady.longest_ms:,.0f} ms"
        ),
        "RssAnon by thirds, MiB": " / ".join(f"{value:.1f}" for value in memory),
        "descriptors by thirds": " / ".join(f"{value:.0f}" for value in descriptors),
    }
    lines = [f"| soak of {figures.minutes:g} minutes, {figures.rate:,}/s on {figures.queues} queues | |", "|---|---|"]
    return [*lines, *(f"| {name} | {value} |" for name, value in rows.items())]


def _count(figures: Figures, event: str) -> int:
    return sum(what == event for _, what in figures.events)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def plot(figures: Figures, path: Path) -> bool:
    """Draw delays, memory, descriptors and the rate over time; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (delays, memory, rate) = pyplot.subplots(3, 1, figsize=(12, 9), sharex=True)
    for kind, colour in (("java", "tab:blue"), ("ours", "tab:orange")):
        found = [one for one in figures.slices if one.kind == kind]
        at = [one.at_s for one in found]
        delays.plot(at, [one.p99_ms for one in found], color=colour, label=f"p99, {kind} consumers")
        delays.plot(at, [one.p50_ms for one in found], color=colour, linewidth=0.7, label=f"p50, {kind} consumers")
    delays.set_yscale("log")
    delays.set_ylabel("delivery, ms")
    at = [one.at_s for one in figures.samples]
    memory.plot(at, [one.anon_mib for one in figures.samples], color="tab:green", label="RssAnon of the broker, MiB")
    memory.plot(at, [one.descriptors for one in figures.samples], color="tab:red", label="descriptors of the broker")
    memory.set_ylim(bottom=0)
    pairs = list(zip(figures.samples, figures.samples[1:], strict=False))
    rate.plot(
        at[1:],
        [(b.acknowledged - a.acknowledged) / (b.at_s - a.at_s) for a, b in pairs],
        color="tab:purple",
        label="acknowledged a second",
    )
    rate.set_xlabel("seconds")
    for axes in (delays, memory, rate):
        for when, what in figures.events:
            axes.axvline(when, color="black" if what.startswith("broker") else "lightgrey", linewidth=0.6, zorder=0)
        axes.legend(loc="upper right", fontsize=8)
    delays.set_title("black lines: the broker was killed or restarted; grey lines: a consumer was")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
