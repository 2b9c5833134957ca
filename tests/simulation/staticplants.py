"""Faults of groups that the third review found, put in one at a time and hunted by one scenario each."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from firearrow.broker.failover.group_slave import GroupSlave
from firearrow.broker.failover.run_file import RunFile
from firearrow.broker.group_broker import GroupBroker
from firearrow.broker.replication import compared_feed, log_digest, master
from firearrow.broker.replication.slave import Slave
from firearrow.broker.settings import changes
from firearrow.broker.settings.config import load_settings
from firearrow.model.group_state import GroupState
from firearrow.protocol.ha_stream import ClaimVerdict
from tests.simulation.partplants import PartPlant
from tests.unit.broker import (
    test_compared_logs,
    test_failover_flush_modes,
    test_failover_full_start,
    test_failover_settings,
    test_failover_strange_states,
)

PutBack = Callable[[pytest.MonkeyPatch], None]


def compares_lengths_only(patch: pytest.MonkeyPatch) -> None:
    """E4: a slave whose log is not longer than the master's is served, whatever its records are."""
    right = log_digest.verdict_on

    async def verdict_on(*arguments: Any) -> ClaimVerdict:
        verdict = await right(*arguments)
        return ClaimVerdict.AGREES if verdict is ClaimVerdict.DIFFERS else verdict

    patch.setattr(compared_feed, "verdict_on", verdict_on)


def counts_connections(patch: pytest.MonkeyPatch) -> None:
    """E9: every connection counts as a replica."""
    patch.setattr(master, "replicas_acked", lambda slaves: [acked for _, acked in slaves])


def goes_by_the_new_flush_mode(patch: pytest.MonkeyPatch) -> None:
    """E3: what a run lost is judged by the flush mode of the next run."""
    made = RunFile.__init__

    def init(self: RunFile, *arguments: Any, syncs: bool) -> None:
        made(self, *arguments, syncs=syncs)
        self.may_lack = self.may_lack and not syncs

    patch.setattr(RunFile, "__init__", init)


def obeys_any_state(patch: pytest.MonkeyPatch) -> None:
    """E10: a state is obeyed whatever its numbers are."""
    patch.setattr(GroupState, "is_sound", True)


def gives_up_without_space(patch: pytest.MonkeyPatch) -> None:
    """A member whose disk is full at its start ends."""

    async def once(_self: GroupBroker, write: Callable[[], Awaitable[Any]]) -> Any:
        return await write()

    patch.setattr(GroupBroker, "_with_space", once)


def stays_fenced(patch: pytest.MonkeyPatch) -> None:
    """A slave whose log could not be written on a full disk goes on with that log."""
    patch.setattr(GroupSlave, "_failed", Slave._failed)


def asks_a_master_for_its_own_id(patch: pytest.MonkeyPatch) -> None:
    """A change of settings is checked as the settings of a start are, also at a master, whose brokerId is 0."""
    patch.setattr(changes, "load_changed", load_settings)


STATIC_PLANTS: Final = (
    PartPlant(
        "E13", "settings of an elected master cannot be changed", asks_a_master_for_its_own_id,
        test_failover_settings.change_settings_of_all_members, "needs a brokerId",
    ),
    PartPlant(
        "E12", "a slave stays fenced after its disk was full", stays_fenced,
        test_failover_full_start.fill_the_disk_of_a_slave, "does not join again",
    ),
    PartPlant(
        "E11", "a member does not start on a full disk", gives_up_without_space,
        test_failover_full_start.start_on_a_full_disk, "no space left|ended because",
    ),
    PartPlant(
        "E3", "the new run's flush mode says what the lost run kept", goes_by_the_new_flush_mode,
        test_failover_flush_modes.sync_after_a_power_loss_without, "acknowledged messages are lost",
    ),
    PartPlant(
        "E4", "logs are compared by their lengths", compares_lengths_only,
        test_compared_logs.outgrow_a_slave_that_went_another_way, "another log",
    ),
    PartPlant(
        "E9", "every connection counts as a replica", counts_connections,
        test_compared_logs.connect_one_machine_twice, "two replicas",
    ),
    PartPlant(
        "E10", "a state out of range is obeyed", obeys_any_state,
        test_failover_strange_states.begin_an_epoch_that_is_too_large, "is no epoch|died of|format requires",
    ),
)  # fmt: skip
