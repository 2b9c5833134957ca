"""The troubles of the processes, one after the other: the broker and members killed and restarted."""

from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.soak.load import Load
from judges import ApacheBroker

Event = tuple[str, Callable[[], object]]


def deaths(broker: ApacheBroker, load: Load) -> Iterator[Event]:
    """Everything: each second event is one of the broker's."""
    members = upsets(load)
    for turn in count():
        if turn % 2:
            yield ("broker killed", broker.restart)
        else:
            yield ("broker restarted", lambda: restart(broker))
        yield next(members)


def upsets(load: Load) -> Iterator[Event]:
    """Members alone: in turns one is killed and one is restarted."""
    for turn in count():
        for place, member in enumerate(load.troubled):
            if (turn + place // 2) % 2:
                yield (f"{member.name} restarted", member.restart)
            else:
                yield (f"{member.name} killed", member.die)


def restart(broker: ApacheBroker) -> None:
    """Stop it in order and start it again."""
    broker.stop()
    broker.start()
