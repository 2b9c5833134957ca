"""Every fuzz target in turn: ``python -m fuzz --seconds 60`` shares the time among them and prints one line for each.

Names of targets limit the run to those: ``python -m fuzz fuzz_record fuzz_batch --seconds 600``.

``python -m fuzz --until 1000000 --ledger`` is the campaign: it goes round the targets that have fewer executions in the
ledger, a minute each, and adds a line to the ledger after each minute; stopped and started again, it goes on.

``python -m fuzz --costs --seconds 240`` prints what parsing costs (`costs`) as a table, and keeps the worst inputs.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from fuzz.costs import ANYBODY, REACHES
from fuzz.found_inputs import ORDINARY_BYTES

CAMPAIGN = "fuzz"
MINUTE_S = 60.0


class Ran(NamedTuple):
    """The result of one target."""

    passed: bool
    figures: dict[str, str]


def main() -> int:
    targets = sorted(path.stem for path in Path(__file__).parent.glob("fuzz_*.py"))
    arguments = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    arguments.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(targets))
    arguments.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    arguments.add_argument("--until", type=int, metavar="N", help="run until every target has N executions")
    arguments.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="with --until: where executions are counted")
    arguments.add_argument("--costs", action="store_true", help="print what parsing costs, as a table")
    options = arguments.parse_args()
    chosen = options.targets or targets
    unknown = sorted(set(chosen) - set(targets))
    if unknown:
        arguments.error(f"no such target: {', '.join(unknown)}; there are {', '.join(targets)}")
    if options.until is not None:
        return _campaign(chosen, options.until, Ledger(CAMPAIGN, options.ledger))
    share = options.seconds / len(chosen)
    if options.costs:
        return _costs(chosen, share)
    failed = [name for name in chosen if not _run(name, share).passed]
    return _judged(failed)


def _campaign(targets: list[str], wanted: int, ledger: Ledger) -> int:
    counts = dict.fromkeys(targets, 0)
    for entry in ledger.recorded():
        if entry["target"] in counts:
            counts[entry["target"]] += entry["executions"]
    while left := [name for name in targets if counts[name] < wanted]:
        for name in left:
            ran = _run(name, MINUTE_S)
            if not ran.passed:
                return _judged([name])
            figures = {key: float(value) for key, value in ran.figures.items() if key != "target"}
            figures["executions"] = executions = int(figures["executions"])
            ledger.add({"target": name, **figures})
            counts[name] += executions
            print(f"{name}: {counts[name]:,} of {wanted:,}; all targets: {sum(counts.values()):,}", flush=True)
    return 0


def _costs(targets: list[str], seconds: float) -> int:
    """Run targets, then print a row for each: the worst input beside an ordinary one, and its byte beside a send's."""
    ran = {name: _run(name, seconds, "--keep-worst") for name in targets}
    print(
        "\n| parser | reached by | ordinary input | ns a byte | worst input | ns a byte | beside a send | of allowed |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, one in sorted(ran.items(), key=lambda item: (REACHES[item[0]].who != ANYBODY, item[0])):
        if "of_allowed" in one.figures:
            print(_row(name, {key: float(value) for key, value in one.figures.items() if key != "target"}))
    return _judged([name for name, one in ran.items() if not one.passed])


def _row(name: str, figures: dict[str, float]) -> str:
    usual = figures["usual_us"] * 1000 / figures["usual_bytes"]
    worst = figures["us"] * 1000 / figures["bytes"]
    send = figures["send_us"] * 1000 / ORDINARY_BYTES
    return (
        f"| `{name}` | {REACHES[name].who} "
        f"| {figures['usual_bytes']:,.0f} B, {figures['usual_us']:.1f} us | {usual:,.0f} "
        f"| {figures['bytes']:,.0f} B, {figures['us']:.1f} us | {worst:,.0f} | {worst / send:.1f} times "
        f"| {figures['of_allowed']:.2f} of {REACHES[name].floor} and {REACHES[name].times} times |"
    )


def _run(name: str, seconds: float, *flags: str) -> Ran:
    command = [sys.executable, "-m", f"fuzz.{name}", "--seconds", f"{seconds:.1f}", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    print(ended.stdout, end="", flush=True)
    if ended.returncode:
        print(ended.stderr, file=sys.stderr, end="")
    last = ended.stdout.splitlines()[-1:] or [""]
    figures = dict(word.split("=", 1) for word in last[0].split() if "=" in word)
    return Ran(ended.returncode == 0, figures)


def _judged(failed: list[str]) -> int:
    if failed:
        print(f"breached: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
