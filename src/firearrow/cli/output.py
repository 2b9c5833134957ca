"""A command ends when standard output cannot be written, at whichever line.

If the reader closed the pipe (``| head``), that is no failure, unless the command left work undone. Every other cause
(a full disk, a descriptor that was never open) is a failure, reported in one line.
"""

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, TextIO


class OutputEnded(Exception):
    """Standard output cannot be written. ``undone`` says which part of its work the command did not do."""

    def __init__(self, error: OSError, undone: str = "") -> None:
        super().__init__(error.strerror or str(error))
        self.error = error
        self.undone = undone


class _Descriptor(io.FileIO):
    """Standard output's descriptor, whose write errors become ``OutputEnded`` and so differ from other failures."""

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever has bytes
        try:
            while (written := super().write(data)) is None:  # the descriptor is non-blocking and its reader is slow
                select.select([], [self], [])
        except OSError as error:
            raise OutputEnded(error) from None
        return written


def guarded(stream: TextIO | None) -> TextIO | None:
    """Return standard output in a form that raises ``OutputEnded``; None if the descriptor is closed."""
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
    """Return the stream for results; raise ``OutputEnded`` if there is none."""
    if sys.stdout is None:
        raise OutputEnded(OSError(errno.EBADF, "it is closed"))
    return sys.stdout


def flush() -> None:
    """Write buffered output; a command succeeds only after that."""
    if sys.stdout is not None:
        sys.stdout.flush()


def end(ended: OutputEnded) -> int:
    """Report the end of output if it is a failure; return the exit status."""
    _discard()
    is_failure = bool(ended.undone) or not isinstance(ended.error, BrokenPipeError)
    if is_failure:
        undone = f"; {ended.undone}" if ended.undone else ""
        with suppress(OSError):
            print(f"firearrow: standard output cannot be written: {ended}{undone}", file=sys.stderr)
    return int(is_failure)


def _discard() -> None:
    """Discard buffered output, so that the interpreter does not fail to write it at exit."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
