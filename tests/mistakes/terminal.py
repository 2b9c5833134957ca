"""A process at a terminal, and the moment at which a person sees the first line that tells something."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

ROWS, COLUMNS = 24, 80
PATIENCE_S = 20.0
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07|\r")
PROGRESS = re.compile("[\u2800-\u28ff] [0-9]+ sent.*")
"""The sign by which ``firearrow produce`` shows that it works, which tells nothing and vanishes."""


class Seen(Struct, frozen=True):
    """The text on the terminal when the line was there, or when the process had ended."""

    line: str
    seconds: float
    screen: str


def look(words: Sequence[str], environment: Mapping[str, str], typed: bytes = b"") -> Seen:
    """Run a process at a terminal until there is a line to read; then end it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began = time.monotonic()
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environment), start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            os.write(ours, typed)
            return _first_line(ours, began)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            os.close(ours)


def _first_line(terminal: int, began: float) -> Seen:
    screen = b""
    while True:
        ended = not select.select([terminal], [], [], max(0.0, began + PATIENCE_S - time.monotonic()))[0]
        if not ended:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the last process has closed it
                data = b""
            ended = not data
            screen += data
        line = telling(ESCAPE.sub(b"", screen).decode(errors="replace"), ended=ended)
        if line or ended:
            return Seen(line, time.monotonic() - began, ESCAPE.sub(b"", screen).decode(errors="replace"))


def telling(text: str, *, ended: bool) -> str:
    """The first whole line; of a traceback its last, which names the error."""
    lines = [line for each in text.split("\n")[: None if ended else -1] if (line := PROGRESS.sub("", each)).strip()]
    if not lines:
        return ""
    if not lines[0].startswith("Traceback"):
        return lines[0].strip()
    told = (line for line in reversed(lines) if not line.startswith((" ", "Traceback", "sys:")))
    return next(told, "") if ended else ""
