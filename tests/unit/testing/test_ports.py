"""Reserved ports: held until the process ends, without a word at its end."""

import subprocess
import sys

from firearrow.testing import ports

RESERVE = "from firearrow.testing.ports import free_broker_port; print(free_broker_port(), flush=True); input()"


def test_a_port_is_held_until_its_process_ends_and_nothing_is_printed_then() -> None:
    command = [sys.executable, "-X", "dev", "-c", RESERVE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        assert [ports._lock(port + offset) for offset in ports.BROKER_SPREAD] == [None, None, None]
        _, printed = holder.communicate("\n")
    assert printed == ""
    locks = [ports._lock(port + offset) for offset in ports.BROKER_SPREAD]
    assert None not in locks
