"""Changes of topics, groups and offsets that operators asked for: counted, and answered when replicas have them.

Every change that an operator is told of gets a number, after this broker has made it durable. In a group with a
coordinator the answer leaves when every replica in sync has told that it has that change durably, too: a new master's
tables hold everything that was answered. Changes that clients cause by their first use of a name are not counted: no
answer tells of them.

A topic may be created again before a replica looks, and then its table shows no deletion. So deleted topics are
remembered with the end of the log at that time: everything of the topic below it belongs to the life that is over.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from sys import maxsize
from typing import Final, Protocol, TypeVar

from firearrow.broker.gate.waiting_answers import OwedAnswer
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import SUCCESS, Answer

_Noted = TypeVar("_Noted")
REMEMBERED_MAX: Final = 10_000
"""Most deleted topics that are remembered."""


class ChangeLine(Protocol):
    """A line in which answers wait until replicas have a change."""

    refusal: Refused | None
    """The reason why nothing is changed; None while enough replicas are in sync."""

    def wait(self, end: int, later: OwedAnswer, answer: Answer) -> bool:
        """Send the answer when enough replicas have everything up to a number."""
        ...


class TableChanges:
    """The changes of the tables of one broker since its part began."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the last change."""
        self.replicas: ChangeLine | None = None
        """The line in which answers wait for replicas; None when they do not wait."""
        self.on_change: Callable[[], None] = lambda: None
        """Called at every change, inside the act of whoever made it: it only notes that, and acts in a later turn."""
        self._deleted: dict[str, tuple[int, int]] = {}
        self._begun: Counter[str] = Counter()
        self._ends: dict[str, int] = {}

    def check(self) -> None:
        """Raise ``Refused`` while nothing may be changed, because too few replicas are in sync."""
        if self.replicas is not None and self.replicas.refusal is not None:
            raise self.replicas.refusal

    def answer(self, later: OwedAnswer, answer: Answer = SUCCESS) -> None:
        """Count a change that is durable here, and answer its request once the replicas in sync have it."""
        self.number += 1
        self.on_change()
        if self.replicas is None:
            later.answer(answer)
        else:
            self.replicas.wait(self.number, later, answer)

    def begin_deletion(self, topic: str) -> None:
        """Note that a topic is being deleted, until `end_life` or `end_deletion`."""
        self._begun[topic] += 1

    def end_life(self, topic: str, log_end: int) -> None:
        """Note that the queues of a topic leave their table in this turn, and that the log ends here."""
        self.end_deletion(topic)
        _remember(self._ends, topic, log_end)

    def end_deletion(self, topic: str) -> None:
        """Note that a deletion is over, or that it failed before a life ended."""
        self._begun[topic] -= 1
        if self._begun[topic] <= 0:
            del self._begun[topic]

    def deleted(self, topics: Iterable[str]) -> None:
        """Note, before the change is counted, that replicas are to end these lives."""
        for topic in topics:
            _remember(self._deleted, topic, (self.number + 1, self._ends.get(topic, 0)))

    def life_begins_at(self, topic: str) -> int:
        """Return the physical offset below which records of a topic belong to a life that is over, or is being ended.

        0 where no deletion is remembered.
        """
        return maxsize if topic in self._begun else self._ends.get(topic, 0)

    def deleted_since(self, number: int) -> dict[str, int]:
        """Return the topics that were deleted after a change, with the end of the log then."""
        return {topic: end for topic, (at, end) in self._deleted.items() if at > number}


def _remember(notes: dict[str, _Noted], topic: str, noted: _Noted) -> None:
    notes.pop(topic, None)
    notes[topic] = noted
    while len(notes) > REMEMBERED_MAX:
        del notes[next(iter(notes))]
