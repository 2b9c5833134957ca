"""Readiness: whether a server should be given work, and if not, why not. Pure.

A server is ready when it has started, does not drain, and no check finds a reason. It is *live* as long as it answers
at all, whatever it says here: a server that is not ready must not be restarted for it.
"""

from collections.abc import Callable

Check = Callable[[], str | None]
"""Returns why the server is not ready; None when it is."""


class Readiness:
    """The reasons why one server is not ready."""

    def __init__(self, beginning: str) -> None:
        self.phase: str | None = beginning
        """The phase in which the server does not serve: it starts or drains; None while it serves."""
        self._checks: list[Check] = []

    def add(self, check: Check) -> None:
        """Add a reason that a function finds."""
        self._checks.append(check)

    def reasons(self) -> list[str]:
        """Return why the server is not ready; empty when it is."""
        found = [self.phase, *(check() for check in self._checks)]
        return [reason for reason in found if reason]
