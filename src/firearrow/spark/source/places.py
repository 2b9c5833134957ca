"""Checks offsets and queues in options against the existing queues. Pure.

Numbers are given by topic, by broker or by queue (see `options`). Kafka's form, queues directly below a topic, is
accepted if the topic is on one broker; on several it would be ambiguous. Every name must match a topic, broker or queue
that is read: a name without a match is a mistake, and ignoring it would read everything.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from firearrow.client import Bounds
from firearrow.errors import SettingsError
from firearrow.model import MessageQueue
from firearrow.spark.options import Bound, ByQueue
from firearrow.spark.source.plan import Loss, Offsets


def asked(bound: Bound, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
    """Return the number of each named queue; raise `SettingsError` for names that match no queue."""
    if bound.everywhere is not None:
        return dict.fromkeys(sorted(queues), bound.everywhere)
    found: dict[MessageQueue, int] = {}
    for topic, said in bound.by_queue.items():
        mine = [queue for queue in sorted(queues) if queue.topic == topic]
        if not mine:
            known = ", ".join(dict.fromkeys(queue.topic for queue in sorted(queues)))
            raise SettingsError(f"option {bound.option} names topic {topic!r}, which is not read; topics are {known}")
        found.update(_of_topic(topic, said, mine, bound.option))
    return found


def _of_topic(topic: str, said: Any, queues: list[MessageQueue], option: str) -> Iterator[tuple[MessageQueue, int]]:  # noqa: ANN401 - JSON
    if not isinstance(said, dict):
        yield from ((queue, said) for queue in queues)
        return
    brokers = list(dict.fromkeys(queue.broker_name for queue in queues))
    for name, inner in _by_broker(topic, said, brokers, option).items():
        mine = {queue.queue_id: queue for queue in queues if queue.broker_name == name}
        if not mine:
            raise SettingsError(
                f"option {option} names broker {name!r} for topic {topic}, which is on {', '.join(brokers)}"
            )
        if not isinstance(inner, dict):
            yield from ((queue, inner) for queue in mine.values())
            continue
        for number, value in inner.items():
            if not number.isdecimal() or int(number) not in mine or isinstance(value, dict):
                raise _no_queue(option, topic, name, number, mine)
            yield mine[int(number)], value


def _by_broker(topic: str, said: Mapping[str, Any], brokers: list[str], option: str) -> Mapping[str, Any]:
    """Return the numbers by broker, also from Kafka's form, where queues are directly below the topic."""
    if not all(name.isdecimal() and name not in brokers for name in said):
        return said
    if len(brokers) == 1:
        return {brokers[0]: said}
    example = f'{{"{topic}": {{"{brokers[0]}": {{"0": 23}}}}}}'
    raise SettingsError(
        f"option {option} names queues of {topic} without their brokers, and every one of {', '.join(brokers)} has "
        f"queues of these numbers; write {example}"
    )


def _no_queue(option: str, topic: str, broker: str, number: object, queues: Iterable[int]) -> SettingsError:
    return SettingsError(
        f"option {option} names queue {number} of {topic} on {broker}, which cannot be read there; it has "
        f"{', '.join(map(str, sorted(queues)))}"
    )


# -- assigned queues


def is_assigned(assigned: ByQueue, queue: MessageQueue) -> bool:
    """Whether option ``assign`` names a queue."""
    found = assigned.get(queue.topic)
    if isinstance(found, dict):
        found = found.get(queue.broker_name)
    return isinstance(found, list) and queue.queue_id in found


def require_assigned(assigned: ByQueue, queues: Collection[MessageQueue]) -> None:
    """Raise unless every queue that ``assign`` names exists."""
    for topic, said in assigned.items():
        by_broker: dict[str, set[int]] = {}
        for queue in queues:
            if queue.topic == topic:
                by_broker.setdefault(queue.broker_name, set()).add(queue.queue_id)
        if isinstance(said, dict):
            named = [(broker, by_broker.get(broker, set()), numbers) for broker, numbers in said.items()]
        else:
            named = [(" and ".join(sorted(by_broker)) or "any broker", set().union(*by_broker.values()), said)]
        for broker, there, numbers in named:
            for number in numbers:
                if number not in there:
                    raise _no_queue("assign", topic, broker, number, there)


# -- offsets outside the bounds


def outside(starts: Offsets, bounds: Mapping[MessageQueue, Bounds], ends: Offsets | None = None) -> list[Loss]:
    """Return the losses between the given beginnings or ends and the existing messages."""
    found = []
    for queue, start in sorted(starts.items()):
        first, end = bounds[queue]
        if start > end:
            found.append(Loss(queue, end, start, f"the options begin at offset {start}, but the queue ends at {end}"))
        elif start < first:
            reason = f"the options begin at offset {start}, but the broker's first message is {first} now"
            found.append(Loss(queue, start, first, reason))
        if ends is not None and ends[queue] > max(start, end):
            reason = f"the options end at offset {ends[queue]}, but the queue ends at {end}"
            found.append(Loss(queue, max(start, end), ends[queue], reason))
    return found


def inside(starts: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
    """Return the beginnings, limited to the bounds."""
    return {queue: min(max(start, bounds[queue].first), bounds[queue].end) for queue, start in starts.items()}


def require_order(starting: Bound, ending: Bound, queues: Collection[MessageQueue]) -> None:
    """Raise if a queue would end before it begins; an end at 0 means that the queue is not read."""
    if starting.kind != ending.kind:
        return
    starts, ends = asked(starting, queues), asked(ending, queues)
    for queue in sorted(starts.keys() & ends.keys()):
        if starts[queue] > ends[queue] > 0:
            raise SettingsError(
                f"{queue.topic} on {queue.broker_name}, queue {queue.queue_id} would end at {ends[queue]}, before it "
                f"begins at {starts[queue]}; exchange the starting and ending options"
            )
