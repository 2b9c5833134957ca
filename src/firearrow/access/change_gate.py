"""Sends the success of a change of users, rules or accounts: at once, or after replicas have the change.

A name server and a lone broker answer when the file is durable. A broker puts its gate here (``broker.gate``), which
knows its group.
"""

from typing import Protocol

from firearrow.remoting.handlers import Answer, Call, Later


class ChangeGate(Protocol):
    """Says whether a change is allowed now, and sends the success of a change."""

    def check_change(self) -> None:
        """Raise ``Refused`` while nothing may be changed."""
        ...

    def changed(self, call: Call, answer: Answer) -> Later:
        """Send the answer to a change whose file is durable, once all replicas that must have the file have it."""
        ...


class OpenGate:
    """Sends every success at once: waits for no replica."""

    def check_change(self) -> None:
        """Allow every change."""

    def changed(self, call: Call, answer: Answer) -> Later:
        """Send the answer."""
        later = call.later()
        later.answer(answer)
        return later
