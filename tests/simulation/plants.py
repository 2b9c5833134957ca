"""Faults that a review found in a tree whose suites were all green, put back one at a time.

Each is named after its finding and is what the tree did before it was mended, or the nearest to that which the mended
tree can still be made to do. Where the fault is hunted, and in what shape of a cluster, stands beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from firearrow.broker.handlers.message import pull
from firearrow.broker.handlers.message.pull import PullHandlers
from firearrow.broker.pull.backlog import BacklogLine
from firearrow.broker.pull.long_poll import ParkedPulls
from firearrow.broker.state.journal import Edition
from firearrow.errors import DiskError
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.handlers import Call
from firearrow.remoting.room import Room
from firearrow.runtime.disk import door as disk
from firearrow.store.index import files as index
from firearrow.store.views import views
from firearrow.store.views.pressure import Pressure
from tests.simulation.broker.chaos import Options, run_chaos
from tests.unit.broker.test_deleted_topics import deletes_half
from tests.unit.broker.test_young_topics import joins_the_line_when_the_topic_is_durable

PutBack = Callable[[pytest.MonkeyPatch], None]
QUIET: Final = Options(
    flush="SYNC_FLUSH",
    name_servers=1,
    brokers=1,
    producers=2,
    consumers=1,
    queues=2,
    power=False,
    faultless=False,
    steps=6,
    step_s=1.0,
    latency_s=0.0005,
    sync_s=0.005,
    menu="disks",
)
"""The shape from which the hunts differ."""
OLD_SUSPEND_MS: Final = 600_000


def short_of_descriptors_is_broken(patch: pytest.MonkeyPatch) -> None:
    """A2: EMFILE is an error like any other, and an error of a flush fences the log for good."""
    patch.setattr(disk, "SHORTAGES", frozenset())
    patch.setattr(views, "LOST", (DiskError,))


def answers_without_room(patch: pytest.MonkeyPatch) -> None:
    """A4: all requests of one read are answered before anything is written, however much that is."""
    patch.setattr(ConnectionDriver, "_is_full", lambda _self: False)
    patch.setattr(BacklogLine, "is_full", False)
    patch.setattr(Room, "has_room", True)


def waiting_pulls_outlive_their_connections(patch: pytest.MonkeyPatch) -> None:
    """A5: parked pulls wait for up to ten minutes in the budget of everybody, and stay when their client is gone."""
    patch.setattr(ParkedPulls, "leave", lambda _self, _owner, _most: True)
    patch.setattr(Call, "hold", Call.later)
    patch.setattr(pull, "MAX_SUSPEND_MS", OLD_SUSPEND_MS)


def believes_any_file(patch: pytest.MonkeyPatch) -> None:
    """A9: a file of state is believed if it parses."""
    patch.setattr(Edition, "is_of", lambda _self, _data: True)


def forgets_what_a_stopped_flush_wrote(patch: pytest.MonkeyPatch) -> None:
    """A13: a flush of the index that is stopped before its checksums are written leaves them to nobody."""

    async def write_durably(active: Any, sums: Any) -> None:
        await active.write_out()
        changed = list(active.unsummed)
        active.unsummed.clear()
        await active.file.sync()
        await sums.renew(active.file, changed)

    patch.setattr(index, "_write_durably", write_durably)


def stalled_views_stop_nobody(patch: pytest.MonkeyPatch) -> None:
    """A14: messages are taken while what leads to them cannot be written and piles up in memory."""
    patch.setattr(Pressure, "_refuse_if_full", lambda _self: None)


def a_read_error_ends_the_round(patch: pytest.MonkeyPatch) -> None:
    """A17: the first woken pull that cannot be read takes the others with it."""

    def serve(self: Any, parked: Any, made: Any) -> int:
        later = parked.ticket.later
        if not later.is_owed:
            return 0
        answer = self._late_answer(parked, made)
        if answer is None:
            return 0
        later.answer(answer)
        return len(answer.body)

    patch.setattr(PullHandlers, "_serve", serve)


def asks_the_timer_when_it_is_due(patch: pytest.MonkeyPatch) -> None:
    """A23: uvloop's handle of a timer that is due at once cannot say so."""
    set_timer = PullHandlers._set_timer

    def asking(self: Any) -> None:
        if self._timer is not None:
            self._timer_ms = self._timer.when() * 1000
        set_timer(self)

    patch.setattr(PullHandlers, "_set_timer", asking)


@dataclass(frozen=True)
class Plant:
    """A fault, and the cluster in which it is hunted."""

    finding: str
    what: str
    put_back: PutBack
    options: Options
    rule: str
    """The beginning of the first complaint, or of one of several, as a regular expression."""

    def hunt(self, seed: int) -> None:
        """Raise what is wrong in one cluster."""
        run_chaos(seed, self.options)


PLANTS: Final = (
    Plant(
        "A1", "an answer joins its line after the write may have been taken back",
        joins_the_line_when_the_topic_is_durable,
        replace(QUIET, firsts=1, kinds=("refuse_log_write", "refuse_log_write", "refuse_config")), "I[13]",
    ),
    Plant(
        "A2", "EMFILE in a flush of the views stops all sends for good", short_of_descriptors_is_broken,
        replace(QUIET, kinds=("exhaust_descriptors",), views_ms=200), "I16",
    ),
    Plant(
        "A4", "pipelined pulls are answered whether anybody reads or not", answers_without_room,
        replace(QUIET, menu="clients", kinds=("grow",), step_s=3.0, cold=0.0, hostile=("Pipeliner",), queues=1), "I19",
    ),
    Plant(
        "A5", "parked pulls stop the broker and outlive their connections", waiting_pulls_outlive_their_connections,
        replace(QUIET, menu="clients", kinds=("grow",), step_s=3.0, hostile=("Poller",)), "I(16|18|20)",
    ),
    Plant(
        "A8", "deleted topics come back after a crash", deletes_half,
        replace(QUIET, lives=2, kinds=("kill", "restart"), views_ms=5_000, steps=10), "I14",
    ),
    Plant(
        "A9", "rotted offsets are believed", believes_any_file,
        replace(QUIET, kinds=("rot_offsets",)), "I9",
    ),
    Plant(
        "A13", "an end in order leaves an index that is made again", forgets_what_a_stopped_flush_wrote,
        replace(QUIET, flush="ASYNC_FLUSH", kinds=("slow_down",), views_ms=200, steps=10, index_slots=16_384), "I15",
    ),
    Plant(
        "A14", "queues that cannot be written pile up in memory", stalled_views_stop_nobody,
        replace(QUIET, kinds=("stall_views",), views_ms=200, sync_s=0.001), "I21",
    ),
    Plant(
        "A17", "a read error loses the pulls that woke with it", a_read_error_ends_the_round,
        replace(QUIET, kinds=("fail_reads",), consumers=2), "cannot read|I17",
    ),
    Plant(
        "A23", "long polls fail where a timer is due at once", asks_the_timer_when_it_is_due,
        replace(QUIET, menu="clients", kinds=("grow",), step_s=3.0, hostile=("Poller",)), "logged an exception|when",
    ),
)  # fmt: skip
