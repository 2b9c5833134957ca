"""Apache's assignment strategies, which divide queues among members, as pure functions.

Every member of a group computes the same division from the same two sorted lists, so each queue has one reader without
a coordinator. ``queues`` are sorted by topic, broker and number, ``members`` are client ids in Java's order of text;
``assigned`` sorts both. A strategy returns the queues of ``me``; a member that is not listed gets none.

Java: ``client.consumer.rebalance.*``; the names are theirs.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from firearrow.errors import SettingsError
from firearrow.model import MessageQueue

T = TypeVar("T", MessageQueue, str)

Strategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""(me, queues, members) -> my queues."""

VIRTUAL_NODES: Final = 10


def assigned(strategy: Strategy, me: str, queues: Iterable[MessageQueue], members: Iterable[str]) -> list[MessageQueue]:
    """Return the queues of ``me`` among ``members``; the order of the arguments does not matter."""
    listed = sorted(set(members), key=_java_order)
    sorted_queues = sorted(queues, key=_java_queue_order)
    return _ask(strategy, me, sorted_queues, listed) if me in listed and sorted_queues else []


def _ask(strategy: Strategy, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
    """Call a strategy, which may be a user's; raise ``SettingsError`` if it fails or does not return queues."""
    given = frozenset(queues)
    name = getattr(strategy, "__qualname__", type(strategy).__qualname__)
    try:
        mine: object = strategy(me, queues, members)
    except BaseException as error:  # sys.exit too: a strategy runs in the client's task, not in the user's
        raise SettingsError(f"strategy {name} failed: {type(error).__name__}: {error}") from error
    if isinstance(mine, list | tuple | set | frozenset):
        listed = [queue for queue in mine if isinstance(queue, MessageQueue) and queue in given]
        if len(listed) == len(mine):
            return listed
    raise SettingsError(f"strategy {name} returned {mine!r}; let it return a list of the queues that it was given")


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _java_queue_order(queue: MessageQueue) -> tuple[bytes, bytes, int]:
    return _java_order(queue.topic), _java_order(queue.broker_name), queue.queue_id


def average(me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
    """AVG: one block of queues for each member; the first members get one more if the division leaves a remainder."""
    index, (share, more) = members.index(me), divmod(len(queues), len(members))
    begin = index * share + min(index, more)
    return list(queues[begin : begin + share + (index < more)])


def circle(me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queues are assigned round-robin."""
    return list(queues[members.index(me) :: len(members)])


def configured(mine: Iterable[MessageQueue]) -> Strategy:
    """CONFIG: always these queues, independent of the other members."""
    fixed = list(mine)

    def strategy(_me: str, _queues: Sequence[MessageQueue], _members: Sequence[str]) -> list[MessageQueue]:
        return list(fixed)

    return strategy


def machine_room(rooms: Collection[str]) -> Strategy:
    """MACHINE_ROOM: only brokers named ``room@name`` of these rooms; a block for each member, the rest one by one."""

    def strategy(me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        inside = [queue for queue in queues if _room_of(queue) in rooms]
        index, (share, more) = members.index(me), divmod(len(inside), len(members))
        mine = inside[index * share : (index + 1) * share]
        return mine + ([inside[index + share * len(members)]] if index < more else [])

    return strategy


def _room_of(queue: MessageQueue) -> str | None:
    parts = queue.broker_name.split("@")
    return parts[0] if len(parts) == 2 else None


def machine_room_nearby(
    inner: Strategy, room_of_queue: Callable[[MessageQueue], str], room_of_member: Callable[[str], str]
) -> Strategy:
    """MACHINE_ROOM_NEARBY: members read in their own room; rooms without members are divided among all."""

    def strategy(me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        members_by_room = _by_room(members, room_of_member)
        queues_by_room = _by_room(queues, room_of_queue)
        here = room_of_member(me)
        mine = inner(me, queues_by_room[here], members_by_room[here]) if queues_by_room.get(here) else []
        for room in sorted(queues_by_room, key=_java_order):
            if room not in members_by_room:
                mine += inner(me, queues_by_room[room], members)
        return mine

    return strategy


def _by_room(things: Sequence[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = {}
    for thing in things:
        room = room_of(thing)
        if not room:
            raise SettingsError(f"{thing} has no machine room; the function that returns rooms must return one for all")
        rooms.setdefault(room, []).append(thing)
    return rooms


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES) -> Strategy:
    """CONSISTENT_HASH: few queues move when a member comes or goes. MD5, ten points a member."""

    def strategy(me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        ring = {_point(f"{member}-{number}"): member for member in members for number in range(virtual_nodes)}
        points = sorted(ring)
        if not points:
            return []
        mine = []
        for queue in queues:
            place = bisect_left(points, _point(_java_text(queue)))
            if ring[points[place % len(points)]] == me:
                mine.append(queue)
        return mine

    return strategy


def _point(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


BY_NAME: Final[dict[str, Strategy]] = {
    "AVG": average,
    "AVG_BY_CIRCLE": circle,
    "CONSISTENT_HASH": consistent_hash(),
}
"""The strategies without parameters."""


def checked_strategy(given: Strategy | str) -> Strategy:
    """Return the strategy of that name, or the given function; raise ``SettingsError`` for anything else."""
    if isinstance(given, str):
        return strategy_named(given)
    if not callable(given):
        known = ", ".join(BY_NAME)
        raise SettingsError(f"strategy={given!r} is not an assignment strategy; there are {known}, or give a function")
    return given


def strategy_named(name: str) -> Strategy:
    """Return the strategy with one of Apache's names."""
    try:
        return BY_NAME[name]
    except KeyError:
        known = ", ".join(BY_NAME)
        raise SettingsError(f"{name!r} is not an assignment strategy; there are {known}, or give a function") from None
