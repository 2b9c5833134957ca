"""Changes of topics, groups and offsets that operators asked for: counted, and answered when replicas have them.

Every change that an operator is told of gets a number, after this broker has made it durable. In a group with a
coordinator the answer leaves when every replica in sync has told that it has that change durably, too: a new master's
tables hold everything that was answered. Changes that clients cause by their first use of a name are not counted: no
answer tells of them.

A topic may be created again before a replica looks, and then its table shows no deletion. So deleted topics are
remembered with the end of the log at that time: everything of the topic below it belongs to the life that is over.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from firearrow.broker.gate.waiting_answers import Owed
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import SUCCESS, Answer

REMEMBERED_MAX: Final = 10_000
"""Most deleted topics that are remembered."""


class Replicas(Protocol):
    """A line in which answers wait until replicas have a change."""

    refusal: Refused | None
    """The reason why nothing is changed; None while enough replicas are in sync."""

    def wait(self, end: int, later: Owed, answer: Answer) -> bool:
        """Send the answer when enough replicas have everything up to a number."""
        ...


class TableChanges:
    """The changes of the tables of one broker since its part began."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the last change."""
        self.replicas: Replicas | None = None
        """The line in which answers wait for replicas; None when they do not wait."""
        self.on_change: Callable[[], None] = lambda: None
        """Called at every change, inside the act of whoever made it: it only notes that, and acts in a later turn."""
        self._deleted: dict[str, tuple[int, int]] = {}

    def check(self) -> None:
        """Raise ``Refused`` while nothing may be changed, because too few replicas are in sync."""
        if self.replicas is not None and self.replicas.refusal is not None:
            raise self.replicas.refusal

    def answer(self, later: Owed, answer: Answer = SUCCESS) -> None:
        """Count a change that is durable here, and answer its request once the replicas in sync have it."""
        self.number += 1
        self.on_change()
        if self.replicas is None:
            later.answer(answer)
        else:
            self.replicas.wait(self.number, later, answer)

    def deleted(self, topics: Iterable[str], log_end: int) -> None:
        """Note, before the change is counted, that topics are deleted, and that the log ends here."""
        for topic in topics:
            self._deleted.pop(topic, None)
            self._deleted[topic] = (self.number + 1, log_end)
        while len(self._deleted) > REMEMBERED_MAX:
            del self._deleted[next(iter(self._deleted))]

    def deleted_since(self, number: int) -> dict[str, int]:
        """Return the topics that were deleted after a change, with the end of the log then."""
        return {topic: end for topic, (at, end) in self._deleted.items() if at > number}
