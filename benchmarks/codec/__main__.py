"""``make bench-codec``: microseconds a message of every hot codec, beside a bare loop over the same bytes.

Exits with 1 when the ratio of a codec exceeds ``--limit``. Indented rows show what lies around a codec; they have no
limit.
"""

import argparse
import os
import platform
import sys

import msgspec

from benchmarks.codec import headers, record


def machine() -> str:
    """Return the machine that the figures were measured on."""
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        models = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    cpu = models[0] if models else platform.machine()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    load = os.getloadavg()[0]
    return f"{cpu}, {os.cpu_count()} CPUs, {python}, msgspec {msgspec.__version__}, load average {load:.1f}"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.codec", description=__doc__)
    arguments.add_argument("--limit", type=float, default=1.5, help="the largest ratio that passes")
    options = arguments.parse_args()
    print(machine())
    print(f"{'':46} {'ours us':>14} {'bare us':>14} {'ratio':>6}")
    exceeded = []
    for row in [*headers.measure(), *record.measure()]:
        ours, bare = (
            f"{us:.2f} ±{spread:.0%}" for us, spread in ((row.ours_us, row.ours_spread), (row.bare_us, row.bare_spread))
        )
        print(f"{row.name:46} {ours:>14} {bare:>14} {row.ratio:6.2f}")
        if row.ratio > options.limit and not row.name.startswith(" "):
            exceeded.append(row.name)
    if exceeded:
        print(f"over the limit of {options.limit}: {'; '.join(exceeded)}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    raise SystemExit(main())
