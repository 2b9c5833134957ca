"""`python -m benchmarks.versus`: the same stock client, the same load, two brokers, in turns.

    python -m benchmarks.versus                                    every row, three rounds
    python -m benchmarks.versus --rows 128x64,batch --rounds 5
    python -m benchmarks.versus --with 4.9.7 --output build/versus-4.9.7
    python -m benchmarks.versus --workers --rows batch,64conns     ours as `firearrow broker --workers 2`
    python -m benchmarks.versus --before DIRECTORY --rows 128x1    an older checkout of ours instead of Apache's broker

A row that has its rounds in OUTPUT/figures.json is not measured again, so a run can be broken off and repeated; with
--again the rows are begun anew. `--hold` starts and warms the brokers, then waits until it is ended; another run
with the same --output finds them and measures at once.
"""

import argparse
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks.versus.contestants import APACHE, BEFORE, FLOOR, OURS, WORKERS, Contestant, Standing, warm_up
from benchmarks.versus.measure import take_turn
from benchmarks.versus.report import Figures, heading, plot, table
from benchmarks.versus.rows import ROWS

HELD = "held.json"


def say(text: str) -> None:
    """Tell whoever waits."""
    print(f"  {text}", file=sys.stderr, flush=True)


def modes(rows: list[str]) -> list[str]:
    """The flush modes that rows need, each once."""
    return list(dict.fromkeys(ROWS[row].flush for row in rows))


def start(stack: ExitStack, options: argparse.Namespace, rows: list[str]) -> list[Standing]:
    """Start and warm everybody; all but nobody is held still afterwards."""
    standing = []
    rival = BEFORE if options.before else f"{APACHE}{options.rival}"
    names = [WORKERS if options.workers else OURS, rival, *([FLOOR] if any(ROWS[row].floor for row in rows) else [])]
    for flush in modes(rows):
        for name in names:
            if name == FLOOR and flush != ROWS["128x64"].flush:
                continue
            one = stack.enter_context(Contestant(name, flush, options.before if name == BEFORE else None))
            # Python compiles nothing while it runs, so ours needs its files and tables warm and no more.
            seconds = options.warm_up if name.startswith(APACHE) else min(options.warm_up, options.warm_ours)
            say(f"{name}, {flush}: broker at {one.broker}; warming up for {seconds:.0f} s")
            warm_up(one, seconds)
            one.pause()
            standing.append(one)
    return standing


def hold(options: argparse.Namespace, rows: list[str]) -> None:
    """Keep the brokers warm for other runs."""
    file = options.output / HELD
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with ExitStack() as stack:
        standing = start(stack, options, rows)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(standing))
        stack.callback(file.unlink)
        say(f"held: {file}")
        ended.wait()


def measure(options: argparse.Namespace, rows: list[str], standing: list[Standing]) -> Figures:
    """Every row that lacks rounds, in turns."""
    path = options.output / "figures.json"
    figures = Figures.read(path)
    figures.heading = heading(
        str(options.output), options.rounds, options.lead, options.seconds, options.warm_up, options.warm_ours
    )
    began = time.monotonic()
    for row in rows:
        if options.again:
            figures.turns.pop(row, None)
        present = [one for one in standing if one.flush == ROWS[row].flush and (one.name != FLOOR or ROWS[row].floor)]
        while missing := [one for one in present if figures.count(row, one.name) < options.rounds]:
            if options.minutes and time.monotonic() - began > options.minutes * 60:
                say(f"{options.minutes:g} minutes are over; the rest is left for another run")
                return figures
            fewest = min(figures.count(row, one.name) for one in missing)
            one = next(one for one in missing if figures.count(row, one.name) == fewest)
            one.resume()
            try:
                turn = take_turn(ROWS[row], one, options.lead, options.seconds)
            finally:
                one.pause()
            figures.add(row, one.name, turn)
            figures.write(path)
            delays = f", p99 {turn.p99_ms:.2f} ms" if turn.p99_ms else ""
            say(f"{row}, {one.name}: {turn.rate:,.0f}/s, {turn.cpu_us:.1f} us, {turn.anon_mib:,.0f} MiB{delays}")
    return figures


def show(options: argparse.Namespace, figures: Figures) -> None:
    """The table, and the picture beside the figures."""
    print("\n".join([*(f"- {line}" for line in figures.heading), "", *table(figures)]))
    picture = options.output / "versus.png"
    if plot(figures, picture):
        print(f"\nplot {picture}, figures {options.output / 'figures.json'}")
    else:
        print(f"\nfigures {options.output / 'figures.json'}; no plot without matplotlib (the extra `bench`)")


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="rows by name, divided by commas: " + ", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the measured window")
    parser.add_argument("--lead", type=float, default=12.0, help="seconds for the client to run in")
    parser.add_argument("--warm-up", type=float, default=100.0, help="seconds to warm each broker up")
    parser.add_argument("--warm-ours", type=float, default=100.0, help="seconds to warm ours up, if that is less")
    parser.add_argument("--with", dest="rival", default="5.5.0", help="Apache's version: 5.5.0 or 4.9.7")
    parser.add_argument("--before", help="a checkout of an older version, as the rival instead of Apache's broker")
    parser.add_argument("--workers", action="store_true", help="ours is `firearrow broker --workers 2`")
    parser.add_argument("--minutes", type=float, default=0, help="begin no turn after so many minutes; 0 is no limit")
    parser.add_argument("--output", type=Path, default=None, help="directory of what is written [build/versus-VERSION]")
    parser.add_argument("--again", action="store_true", help="measure the rows anew")
    parser.add_argument("--hold", action="store_true", help="start and warm the brokers, then wait")
    parser.add_argument("--show", action="store_true", help="print what was measured, measure nothing")
    options = parser.parse_args()
    ours = "-workers" if options.workers else ""
    options.output = options.output or Path("build") / f"versus{ours}-{BEFORE if options.before else options.rival}"
    rows = [name for name in options.rows.split(",") if name]
    if options.show:
        show(options, Figures.read(options.output / "figures.json"))
        return
    if options.hold:
        hold(options, rows)
        return
    began = time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    held = options.output / HELD
    with ExitStack() as stack:
        if held.exists():
            standing = msgspec.json.decode(held.read_bytes(), type=list[Standing])
        else:
            standing = start(stack, options, rows)
        show(options, measure(options, rows, standing))
    say(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
