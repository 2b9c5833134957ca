"""Checks a run: what producers were acknowledged against what consumers received. Pure.

- lost: an acknowledged message that no consumer received;
- misplaced: a place that was acknowledged for one message and held another;
- rewritten: a place from which two different messages were given;
- skipped: an offset, below the highest of its queue, that no consumer received;
- disordered: a queue in which a message of a producer lies behind one that the producer sent later.

A message may be given more often than once, and one that was not acknowledged may be given or not.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from judges.producers import Place, Produced
from judges.reports import Delivery, ReceiveReport

SHOWN = 5
Sender = tuple[int, int]
"""The number of a producer in the run, and the number of its message."""


@dataclass(frozen=True)
class Findings:
    """The broken promises, each with examples in words."""

    acknowledged: int
    failed: int
    delivered: int
    """Deliveries, repeated ones too."""
    queues: int
    lost: Sequence[str] = ()
    misplaced: Sequence[str] = ()
    rewritten: Sequence[str] = ()
    skipped: Sequence[str] = ()
    disordered: Sequence[str] = ()

    @property
    def broken(self) -> list[str]:
        """One complaint a kind."""
        kinds = {
            "lost": self.lost, "misplaced": self.misplaced, "rewritten": self.rewritten, "skipped": self.skipped,
            "disordered": self.disordered,
        }  # fmt: skip
        return [f"{len(found)} {kind}: {'; '.join(found[:SHOWN])}" for kind, found in kinds.items() if found]

    def figures(self) -> dict[str, int]:
        """For the ledger."""
        return {
            "acknowledged": self.acknowledged, "failed_sends": self.failed, "delivered": self.delivered,
            "queues": self.queues, "lost": len(self.lost), "misplaced": len(self.misplaced),
            "rewritten": len(self.rewritten), "skipped": len(self.skipped), "disordered": len(self.disordered),
        }  # fmt: skip


@dataclass
class _Given:
    """Everything that consumers were given, by place and by message."""

    at: dict[Place, str] = field(default_factory=dict)
    rewritten: list[str] = field(default_factory=list)
    digests: set[str] = field(default_factory=set)
    count: int = 0

    def add(self, delivery: Delivery) -> None:
        self.count += 1
        self.digests.add(delivery.digest)
        place = Place(delivery.broker or "", delivery.queue, delivery.offset)
        if self.at.setdefault(place, delivery.digest) != delivery.digest:
            self.rewritten.append(f"{place} held two messages")


def audit(produced: Sequence[Produced], received: Iterable[ReceiveReport], *, first: int = 0) -> Findings:
    """Compare. ``first`` is the offset at which the consumers' queues began; all of one topic, none of it refused."""
    given = _Given()
    for report in received:
        for delivery in report.deliveries:
            given.add(delivery)
    senders = {digest: (n, number) for n, one in enumerate(produced) for digest, number in one.by_digest.items()}
    queues = _by_queue(given.at)
    return Findings(
        acknowledged=sum(len(one.acks) for one in produced),
        failed=sum(len(one.failed) for one in produced),
        delivered=given.count,
        queues=len(queues),
        lost=_lost(produced, given),
        misplaced=_misplaced(produced, given),
        rewritten=given.rewritten,
        skipped=_skipped(queues, first),
        disordered=[complaint for name, held in queues.items() for complaint in _disordered(name, held, senders)],
    )


def unkept(produced: Sequence[Produced], received: Iterable[ReceiveReport]) -> set[Sender]:
    """Acknowledged messages that a consumer, all of which should get all, did not get, or not from their places."""
    broken: set[Sender] = set()
    for report in received:
        given = _Given()
        for delivery in report.deliveries:
            given.add(delivery)
        for n, sent in enumerate(produced):
            digests = {number: sent.payload.digest(number) for number, _ in sent.acks}
            broken |= {(n, number) for number, digest in digests.items() if digest not in given.digests}
            broken |= {(n, number) for number, at in sent.acks if given.at.get(at) not in (None, digests[number])}
    return broken


def _lost(produced: Sequence[Produced], given: _Given) -> list[str]:
    return [
        f"{one.payload.key(number)}, acknowledged at {place}"
        for one in produced
        for number, place in one.acks
        if one.payload.digest(number) not in given.digests
    ]


def _misplaced(produced: Sequence[Produced], given: _Given) -> list[str]:
    return [
        f"{one.payload.key(number)} was acknowledged at {place}, which holds another"
        for one in produced
        for number, place in one.acks
        if given.at.get(place) not in (None, one.payload.digest(number))
    ]


def _by_queue(at: Mapping[Place, str]) -> dict[str, dict[int, str]]:
    queues: dict[str, dict[int, str]] = defaultdict(dict)
    for place, digest in at.items():
        queues[f"{place.broker}:{place.queue}"][place.offset] = digest
    return queues


def _skipped(queues: Mapping[str, Mapping[int, str]], first: int) -> list[str]:
    return [
        f"{name} offset {offset}"
        for name, held in queues.items()
        for offset in range(first, max(held) + 1)
        if offset not in held
    ]


def _disordered(name: str, held: Mapping[int, str], senders: Mapping[str, Sender]) -> list[str]:
    last: dict[int, int] = {}
    complaints = []
    for offset in sorted(held):
        if held[offset] not in senders:
            continue
        sender, number = senders[held[offset]]
        if number < last.get(sender, -1):
            complaints.append(f"{name} offset {offset}: message {number} behind {last[sender]}")
        last[sender] = number
    return complaints
