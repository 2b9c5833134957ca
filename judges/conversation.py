"""Talking with a program of ours over its standard input and output: one JSON object a line, each way.

An answer line begins with `@answer `; any other line is the client library's own print and goes to the log.
One request is outstanding at a time.
"""

import json
import os
import selectors
import time
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from firearrow.errors import FireArrowError, Unsupported
from judges.install.toolchain import tail
from judges.process import Child, ChildFailed

ANSWER = b"@answer "
CHUNK = 1 << 16

T = TypeVar("T")


class JudgeFailed(FireArrowError):
    """A judge program could not do what was asked; the message is its own."""


class Conversation:
    """The two pipes of one child."""

    def __init__(self, child: Child) -> None:
        assert child.popen.stdin is not None
        assert child.popen.stdout is not None, "start the child with piped_output"
        self.child = child
        self._input = child.popen.stdin
        self._output = child.popen.stdout.fileno()
        self._buffer = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    def ask(self, request: Mapping[str, Any], answer: type[T], timeout_seconds: float) -> T:
        """Say a request and return its answer as the type asked for."""
        line = self.exchange(request, timeout_seconds)
        failure = msgspec.json.decode(line, type=_Failure)
        if failure.unsupported is not None:
            raise Unsupported(failure.unsupported)
        if failure.error is not None:
            raise JudgeFailed(f"{request.get('verb')}: {failure.error}; the end of its log:\n{tail(self.child.log)}")
        return msgspec.json.decode(line, type=answer)

    def exchange(self, request: Mapping[str, Any], timeout_seconds: float) -> bytes:
        """Say a request and return the JSON of its answer."""
        try:
            self._input.write(json.dumps(request).encode() + b"\n")
            self._input.flush()
        except OSError as broken:
            raise ChildFailed(f"the judge is gone; the end of its log:\n{tail(self.child.log)}") from broken
        deadline = time.monotonic() + timeout_seconds
        while True:
            line = self._line(deadline)
            if line.startswith(ANSWER):
                return line[len(ANSWER) :]
            with self.child.log.open("ab") as log:
                log.write(line + b"\n")

    def close(self) -> None:
        """Stop watching the pipes; the child is someone else's to end."""
        self._selector.close()

    def _line(self, deadline: float) -> bytes:
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line
            self._read(deadline)

    def _read(self, deadline: float) -> None:
        if not self._selector.select(max(0.0, deadline - time.monotonic())):
            raise ChildFailed(f"the judge did not answer in time; the end of its log:\n{tail(self.child.log)}")
        chunk = os.read(self._output, CHUNK)
        if not chunk:
            raise ChildFailed(
                f"the judge ended with {self.child.popen.wait()}; the end of its log:\n{tail(self.child.log)}"
            )
        self._buffer += chunk


class _Failure(msgspec.Struct):
    error: str | None = None
    unsupported: str | None = None
