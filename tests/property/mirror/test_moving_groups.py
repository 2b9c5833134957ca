"""Two clusters with mirrors both ways, and a group that moves: it never misses a message that it had not had.

Nothing but the rule decides: messages are sent on both sides, both mirrors copy a part of what is there, and a group
consumes where it is and goes to the other side at any time. An offset at either side, consumed or translated, says that
the group has had everything before it; and the translated one is the one of a brute-force search.
"""

from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from firearrow.mirror.offset_map import Loops, OffsetMap, translate


class Message(NamedTuple):
    """A message of either log: which side it was sent to first, and as which message there."""

    home: int
    offset: int


class Side:
    """One queue, the mirror that copies it to the other side, and the group's offset."""

    def __init__(self, most: int) -> None:
        self.log: list[Message] = []
        self.next = 0
        self.copies = OffsetMap(most=most)
        self.loops = Loops(most=most)
        self.committed = 0


class World:
    """Both sides, and what the group has had."""

    def __init__(self, most: int) -> None:
        self.sides = (Side(most), Side(most))
        self.had: set[Message] = set()
        self.place = 0

    def send(self, side: int, count: int) -> None:
        log = self.sides[side].log
        for _ in range(count):
            log.append(Message(side, len(log)))

    def copy(self, side: int, count: int) -> None:
        source, target = self.sides[side], self.sides[1 - side]
        for offset in range(source.next, min(len(source.log), source.next + count)):
            message = source.log[offset]
            if message.home == side:
                source.copies.note(offset, len(target.log))
                target.log.append(message)
            else:
                source.loops.note(offset, message.offset, message.offset)
            source.next = offset + 1

    def consume(self, _: int, count: int) -> None:
        side = self.sides[self.place]
        end = min(len(side.log), side.committed + count)
        self.had.update(side.log[side.committed : end])
        side.committed = end

    def translated(self, side: int) -> int:
        source, target = self.sides[side], self.sides[1 - side]
        return translate(source.committed, target.committed, source.copies, source.loops)

    def sync(self, side: int, _: int) -> None:
        """Translate as the mirror of a side does: only for a group that is not at its target."""
        if self.place == side:
            self.sides[1 - side].committed = self.translated(side)

    def move(self, side: int, _: int) -> None:
        self.sync(self.place, 0)
        self.place = side

    def searched(self, side: int) -> int:
        """Return the first target offset that the mirror cannot know the group to have had."""
        source, target = self.sides[side], self.sides[1 - side]
        known = source.log[: min(source.committed, source.next)]
        loops = [message.offset for message in known if message.home != side]
        for offset in range(target.committed, len(target.log)):
            message = target.log[offset]
            is_loop = bool(loops) and loops[0] <= offset <= loops[-1]
            if not is_loop and not (message.home == side and message.offset < source.committed):
                return offset
        return len(target.log)


steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "copy", "copy", "copy", "consume", "consume", "sync", "move"]),
        st.integers(0, 1),
        st.integers(1, 6),
    ),
    max_size=80,
)


@given(steps, st.sampled_from([4, 6, 4096]))
def test_an_offset_never_passes_a_message_that_the_group_has_not_had(
    story: list[tuple[str, int, int]], most: int
) -> None:
    world = World(most)
    for kind, side, count in story:
        getattr(world, kind)(side, count)
        for mine in world.sides:
            assert set(mine.log[: mine.committed]) <= world.had
    for side in (0, 1):
        found, searched = world.translated(side), world.searched(side)
        assert world.sides[1 - side].committed <= found <= searched
        if most == 4096:
            assert found == searched, "it reads again no more than the rule says"
        event(f"exact: {found == searched}")


@given(steps)
def test_a_group_that_has_had_everything_goes_on_at_the_end(story: list[tuple[str, int, int]]) -> None:
    world = World(4096)
    for kind, side, count in story:
        getattr(world, kind)(side, count)
    for _ in range(2):
        for side in (0, 1):
            world.copy(side, 10_000)
    world.consume(0, 10_000)
    assert world.translated(world.place) == len(world.sides[1 - world.place].log)


@given(steps)
def test_a_group_that_moves_has_had_everything_in_the_end(story: list[tuple[str, int, int]]) -> None:
    world = World(4096)
    for kind, side, count in story:
        getattr(world, kind)(side, count)
    everything = {message for side in world.sides for message in side.log}
    for _ in range(2):
        for side in (0, 1):
            world.copy(side, 10_000)
    world.move(1 - world.place, 0)
    world.consume(0, 10_000)
    assert everything <= world.had
