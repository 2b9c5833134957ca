import subprocess
import sys

from firearrow.testing.ports import BROKER_SPREAD, free_broker_port, free_port


def test_ports_are_never_given_twice() -> None:
    singles = {free_port() for _ in range(30)}
    brokers = [free_broker_port() for _ in range(10)]
    taken = [port + offset for port in brokers for offset in BROKER_SPREAD]
    assert len(singles) == 30
    assert len(set(taken) | singles) == len(taken) + 30


def test_another_process_gets_others() -> None:
    script = (
        "import random\n"
        "import firearrow.testing.ports as ports\n"
        "ports._choice = random.Random(1)\n"
        "print(ports.free_port(), flush=True)\n"
        "input()\n"
    )
    pair = [
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    seen = [process.stdout.readline() for process in pair if process.stdout is not None]
    for process in pair:
        process.communicate(b"\n", timeout=10)
    assert len(set(seen)) == 2
