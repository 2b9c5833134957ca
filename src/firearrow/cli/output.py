"""Standard output that cannot be written ends a command, whichever of its lines it was.

A reader that closed its end has seen enough: nothing is wrong, unless work was left undone. Everything else (a full
disk, a descriptor that was never open) is a failure, told in one line.
"""

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, TextIO


class OutputEnded(Exception):
    """Standard output takes no more. ``undone`` says what the command was asked for and did not do."""

    def __init__(self, error: OSError, undone: str = "") -> None:
        super().__init__(error.strerror or str(error))
        self.error = error
        self.undone = undone


class _Descriptor(io.FileIO):
    """Standard output's descriptor: what cannot be written is told apart from every other failure."""

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever has bytes
        try:
            while (written := super().write(data)) is None:  # it does not block, and its reader is slow
                select.select([], [self], [])
        except OSError as error:
            raise OutputEnded(error) from None
        return written


def guarded(stream: TextIO | None) -> TextIO | None:
    """Standard output, such that it raises ``OutputEnded``; None, as it is when the descriptor is closed."""
    if stream is None:
        return None
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.isatty(),
    )


def standard_output() -> TextIO:
    """Where results are written; raise ``OutputEnded`` when there is none."""
    if sys.stdout is None:
        raise OutputEnded(OSError(errno.EBADF, "it is closed"))
    return sys.stdout


def flush() -> None:
    """Write what waits; a command has not succeeded before that."""
    if sys.stdout is not None:
        sys.stdout.flush()


def end(ended: OutputEnded) -> int:
    """Tell it where it must be told; return the exit status."""
    _discard()
    is_failure = bool(ended.undone) or not isinstance(ended.error, BrokenPipeError)
    if is_failure:
        undone = f"; {ended.undone}" if ended.undone else ""
        with suppress(OSError):
            print(f"firearrow: standard output cannot be written: {ended}{undone}", file=sys.stderr)
    return int(is_failure)


def _discard() -> None:
    """Let what waits go nowhere, so that the interpreter does not fail over it at its end."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
