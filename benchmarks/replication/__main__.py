"""The speed of a slave's catch-up, beside Apache's slave and a bare TCP copy: ``python -m benchmarks.replication``."""

import argparse

from benchmarks.replication.catch_up import CatchUp, catch_up


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replication", description=__doc__)
    parser.add_argument(
        "--megabytes", type=int, default=800, help="size of the log, at most 1000 (default: %(default)s)"
    )
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns, of which the best counts (default: %(default)s)")
    parser.add_argument("--apache", default="5.5.0", help="version of Apache's slave; empty for none")
    given = parser.parse_args()
    print_table(catch_up(given.megabytes, given.body, given.rounds, given.apache))


def print_table(figures: CatchUp) -> None:
    """Print every way with its ratios."""
    print(f"catch-up of an empty slave, {figures.log_bytes / 1e6:.0f} MB")
    rows = {
        "bare TCP copy": figures.bare,
        "slave of ours": figures.ours,
        "  until all can be read": figures.readable,
        "slave of Apache's": figures.apache,
    }
    for name, rate in rows.items():
        if rate:
            beside = f"   x{rate / figures.apache:5.2f} of Apache's" if figures.apache else ""
            print(f"{name:26} {rate / 1e6:8.0f} MB/s   x{rate / figures.bare:5.2f} of the bare copy{beside}")


if __name__ == "__main__":
    main()
