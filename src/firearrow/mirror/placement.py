"""The choice of the target queue that a source queue is copied to. Pure.

Queue i goes to queue i of the broker with the same name, or of a broker that is chosen once. If the target has fewer
brokers than the source, the queues of several source brokers share one: the first broker keeps its numbers, those of
the next follow behind. Two source queues never share a target queue, and a queue that is placed stays where it is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from firearrow.errors import NoRoute
from firearrow.model import MessageQueue

Placement = dict[MessageQueue, MessageQueue]
"""The target queue of each source queue."""


def place(
    sources: Iterable[MessageQueue], brokers: Sequence[str], known: Mapping[MessageQueue, MessageQueue]
) -> Placement:
    """Return the places of all queues; ``brokers`` are those of the target, ``known`` the places so far."""
    if not brokers:
        raise NoRoute("the target cluster has no broker that takes messages; start one")
    placed, waiting = dict(known), sorted(sources)
    partners = {source.broker_name: target.broker_name for source, target in placed.items()}
    taken = {(queue.broker_name, queue.queue_id) for queue in placed.values()}
    named = {queue.broker_name for queue in waiting}
    for queue in waiting:
        if queue in placed:
            continue
        broker = partners.get(queue.broker_name) or _partner(queue.broker_name, brokers, partners, named)
        partners[queue.broker_name] = broker
        number = queue.queue_id
        if (broker, number) in taken:
            number = 1 + max(each for name, each in taken if name == broker)
        taken.add((broker, number))
        placed[queue] = MessageQueue(queue.topic, broker, number)
    return placed


def _partner(source: str, brokers: Sequence[str], partners: Mapping[str, str], named: Collection[str]) -> str:
    """Return the target broker of a source broker: of the same name, else one that has the fewest partners."""
    if source in brokers:
        return source
    used = list(partners.values())
    # A broker whose name a source broker has is kept for that one, as long as there is another.
    return min(sorted(brokers), key=lambda broker: (broker in named, used.count(broker)))


def queue_counts(places: Iterable[MessageQueue]) -> dict[str, int]:
    """Return how many queues each target broker must have for these places."""
    counts: dict[str, int] = {}
    for queue in places:
        counts[queue.broker_name] = max(counts.get(queue.broker_name, 0), queue.queue_id + 1)
    return counts
