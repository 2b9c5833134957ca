"""A simulated process: the owner of tasks, timers and open connections.

Every task and every timer belongs to the process whose code made it. Ownership travels in a context variable,
as contexts are copied from caller to callee by asyncio itself; code outside every node (the scenario, the
cables, the disks' insides) runs with no process. A frozen process (SIGSTOP) keeps its timers and callbacks
for later; a dead one keeps nothing.
"""

import contextvars
from typing import Final


class Process:
    """One run of a program on a node, from start to crash."""

    __slots__ = ("dead", "frozen", "name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.frozen = False
        self.dead = False

    def __repr__(self) -> str:
        """Name the process as the trace does."""
        return f"{self.name}#{self.number}"

    def context(self) -> contextvars.Context:
        """Return a fresh context in which everything belongs to this process."""
        context = contextvars.copy_context()
        context.run(CURRENT.set, self)
        return context


CURRENT: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar("process", default=None)
