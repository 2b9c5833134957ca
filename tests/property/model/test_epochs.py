"""The rejoin decision against brute force: over any history of masters, clean or not, the cut is where logs differ.

A log here is a list of (epoch, value): what a master appended, and when. The oracle compares two logs value by value.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firearrow.model.epochs import Epoch, Epochs, common_end

Log = list[tuple[int, int]]


class Replica:
    """A log and its history, as a replica keeps them."""

    def __init__(self) -> None:
        self.log: Log = []
        self.epochs = Epochs()

    def lead(self, epoch: int) -> None:
        self.epochs = self.epochs.begun(epoch, len(self.log))

    def append(self, epoch: int, value: int) -> None:
        self.log.append((epoch, value))

    def follow(self, master: "Replica", count: int) -> None:
        """Cut by the decision, then copy some records, each with its epoch."""
        if self.epochs.entries:
            cut = common_end(self.epochs, len(self.log), master.epochs, len(master.log))
            assert cut == equal_length(self.log, master.log) if cut is not None else not common(self, master)
            cut = cut or 0
            del self.log[cut:]
            self.epochs = self.epochs.cut(cut)  # also when no record is cut: an epoch without records may go
        at = len(self.log)
        for number in range(at, min(at + count, len(master.log))):
            entry = master.epochs.at(number)
            assert entry is not None
            if entry != self.epochs.last:
                self.epochs = self.epochs.begun(entry.epoch, entry.start_offset)
            self.log.append(master.log[number])


def equal_length(one: Log, other: Log) -> int:
    for number, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return number
    return min(len(one), len(other))


def common(one: Replica, other: Replica) -> bool:
    return bool(set(one.epochs.entries) & set(other.epochs.entries)) or equal_length(one.log, other.log) > 0


@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 4), steps=st.integers(1, 60))
def test_the_cut_is_where_the_logs_differ(seed: int, replicas: int, steps: int) -> None:
    rng = random.Random(seed)
    group = [Replica() for _ in range(replicas)]
    epoch, value, master = 1, 0, group[0]
    master.lead(epoch)
    for _ in range(steps):
        act = rng.random()
        if act < 0.2:  # any replica becomes master, also one that is far behind; the old one may go on for a while
            old, old_epoch = master, epoch
            for _ in range(rng.randrange(3)):
                value += 1
                old.append(old_epoch, value)
            master = rng.choice(group)
            epoch += rng.randrange(1, 3)
            master.lead(epoch)
        elif act < 0.6:
            for _ in range(rng.randrange(4)):
                value += 1
                master.append(epoch, value)
        else:
            rng.choice([one for one in group if one is not master]).follow(master, rng.randrange(6))
    for one in group:
        if one is not master:
            one.follow(master, len(master.log))
            assert one.log == master.log


def history(*entries: tuple[int, int]) -> Epochs:
    return Epochs(tuple(Epoch(*entry) for entry in entries))


def test_a_cut_to_what_is_confirmed_would_lose_records() -> None:
    """KIP-101: the follower has a record that it does not know to be confirmed, and keeps it."""
    assert common_end(history((1, 0)), 2, history((1, 0), (2, 2)), 2) == 2


def test_a_master_that_came_back_fast_is_told_apart() -> None:
    """KIP-279: both wrote at the same offsets in epochs that the other has never seen."""
    assert common_end(history((1, 0), (3, 5)), 9, history((1, 0), (2, 5), (4, 7)), 8) == 5
    assert common_end(history((1, 0), (2, 5), (5, 20)), 30, history((1, 0), (2, 5), (4, 7)), 40) == 7


def test_an_epoch_without_records_is_no_difference() -> None:
    assert common_end(history((1, 0), (2, 5)), 5, history((1, 0)).begun(2, 5).begun(3, 5), 9) == 5


def test_logs_without_a_common_epoch_have_nothing_in_common() -> None:
    assert common_end(history((1, 0)), 9, history((2, 0)), 9) is None
    assert common_end(history(), 0, history((2, 0)), 9) is None


@given(
    entries=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50)), max_size=8),
    offset=st.integers(0, 400),
    log_end=st.integers(0, 400),
)
def test_what_is_left_of_a_history_is_a_history(entries: list[tuple[int, int]], offset: int, log_end: int) -> None:
    epochs, epoch, start = Epochs(), 0, 0
    for more, bytes_written in entries:
        epoch += more
        epochs = epochs.begun(epoch, start)
        start += bytes_written
    assert all(entry.start_offset < offset for entry in epochs.cut(offset).entries)
    assert all(entry.start_offset <= log_end for entry in epochs.ended(log_end).entries)
    kept = epochs.kept_from(offset)
    assert kept.last == epochs.last
    for place in range(offset, start):
        assert kept.at(place) == epochs.at(place)


@pytest.mark.parametrize("entry", [(0, 0), (1 << 31, 0), (1, -1)])
def test_numbers_out_of_range_are_refused(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no epoch"):
        history(entry)


def test_a_history_does_not_go_back() -> None:
    for epoch, start in ((2, 9), (1, 9), (3, 4)):
        with pytest.raises(ValueError, match="cannot follow"):
            history((1, 0), (2, 5)).begun(epoch, start)
