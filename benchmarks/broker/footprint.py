"""`python -m benchmarks.broker.footprint`: how soon `firearrow dev` is ready, what it holds; and Apache's servers.

Ready is when the addresses are printed; for Apache's name server and broker 5.5.0, started in earnest one after the
other as their users do, when the broker answers and the name server lists it. Memory is read once both are ready.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from judges import ApacheBroker, ApacheNameServer

ROUNDS = 5
MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"


def kib(pid: int, what: str) -> int:
    """A line of /proc/PID/status."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith(f"{what}:")).split()[1])


def ours() -> tuple[float, float, float]:
    """Seconds until it is ready, MiB resident, MiB anonymous."""
    words = [sys.executable, "-c", MAIN, "dev", "--name-server-port", "0", "--port", "0"]
    began = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("broker"):
            assert process.poll() is None, "firearrow dev ended"
        seconds = time.monotonic() - began
        found = seconds, kib(process.pid, "VmRSS") / 1024, kib(process.pid, "RssAnon") / 1024
        process.terminate()
    return found


def theirs() -> tuple[float, float, float]:
    """The same of Apache's."""
    names = ApacheNameServer(measured=True)
    broker = ApacheBroker(name_servers=[names.address], measured=True)
    began = time.monotonic()
    with names, broker:
        seconds = time.monotonic() - began
        both = (names.pid, broker.pid)
        return seconds, sum(kib(p, "VmRSS") for p in both) / 1024, sum(kib(p, "RssAnon") for p in both) / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    print("| servers | ready, s (least-most) | RSS MiB | RssAnon MiB |\n|---|---|---|---|")
    for name, take in (("firearrow dev", ours), ("Apache 5.5.0, name server + broker", theirs)):
        taken = [take() for _ in range(rounds)]
        ready, rss, anon = ([one[place] for one in taken] for place in range(3))
        spread = f"{statistics.median(ready):.2f} ({min(ready):.2f}-{max(ready):.2f})"
        print(f"| {name} | {spread} | {statistics.median(rss):.0f} | {statistics.median(anon):.0f} |", flush=True)


if __name__ == "__main__":
    main()
