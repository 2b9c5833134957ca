"""One member of a group at its coordinator: keeps its lease, looks at the group's state, and acts by `elections`.

The member looks when something may have changed, and every `LOOK_S` as well, because a coordinator may forget to tell.
What comes out is its duty: to lead an epoch, to follow one, or neither. Who takes the duty up tells so, so that the
promise on disk and the epoch that is led are part of the next decision.

A master whose coordinator does not answer goes on while every member of the in-sync set reports within the lease: each
report proves that the member had promised no later epoch. Otherwise it steps down when its lease ends.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from firearrow.broker.failover.elections import (
    FollowStep,
    GroupNews,
    LeadStep,
    OwnState,
    ProposeStep,
    Step,
    WaitStep,
    handed_over,
    left,
    next_step,
    promised_by,
)
from firearrow.broker.failover.group_values import GroupView, MemberFacts, decode, encode
from firearrow.broker.failover.run_file import RunFile
from firearrow.errors import BadBody, CoordinatorFailed, FireArrowError
from firearrow.model.group_state import GroupState
from firearrow.runtime.coordinator.door import Coordinator
from firearrow.telemetry.damped import DampedEvents

LOOK_S: Final = 1.0
AGAIN_S: Final = 0.05
"""The pause before another try after a swap that was refused; members take it in turn."""

log = logging.getLogger(__name__)


class ReplicaMembership:
    """A replica as a member of its group."""

    def __init__(
        self,
        coordinator: Coordinator,
        own: OwnState,
        about: MemberFacts,
        run_file: RunFile,
        *,
        lease_s: float,
        min_iss: int,
    ) -> None:
        self._coordinator = coordinator
        self._about = about
        self._run_file = run_file
        self._lease_s = lease_s
        self._min_iss = min_iss
        self._wake = asyncio.Event()
        self._failures = DampedEvents()
        self._said = ""
        self._told_min_iss = min_iss
        self._gone_in = 0
        self._newest = 0
        self._is_leaving = False
        self._heard_s = asyncio.get_running_loop().time()
        self.own = own
        self.live: dict[int, MemberFacts] = {}
        """The live members and their addresses, as last read."""
        self.duty: Step = WaitStep("the coordinator was not asked yet")
        """The duty of this replica: `LeadStep`, `FollowStep` or `WaitStep`."""
        self.on_duty: Callable[[], None] = lambda: None
        """Called when the duty may have changed."""
        self.on_live: Callable[[], None] = lambda: None
        """Called when members may have come, gone or moved."""
        self.on_group: Callable[[GroupState], None] = lambda _: None
        """Called with every state of the epoch that this replica leads."""
        self.proposal: Callable[[], tuple[GroupState, GroupState] | None] = lambda: None
        """Returns the state that the master wants, after the one that it replaces; None for no change."""
        self.is_surrounded: Callable[[], bool] = lambda: False
        """Whether every member of the in-sync set has reported to this master within the lease."""
        self.ailment: Callable[[], str] = lambda: ""
        """Returns why the part that was taken up cannot take messages; empty while it can."""

    def look(self) -> None:
        """Look at the group soon."""
        self._wake.set()

    def master_is_gone(self, epoch: int) -> None:
        """Take it that the master of an epoch is dead: it ended our connection, and its machine refuses others."""
        self._gone_in = max(self._gone_in, epoch)
        self.look()

    async def run(self) -> None:
        """Be a member until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_lease())
            group.create_task(self._watch())
            group.create_task(self._look())

    async def leave(self) -> None:
        """End the lease, so that others need not wait for its end."""
        try:
            async with asyncio.timeout(self._lease_s):
                await self._coordinator.retire()
        except (CoordinatorFailed, TimeoutError) as error:
            log.warning("the lease at the coordinator ends by itself: %s", error, extra={"reason": str(error)})

    async def hand_over(self, chosen: int) -> None:
        """Have a replica in sync elected in the place of this one, which leads and takes no message any more."""
        await self._swap_last(lambda group: handed_over(self.own, group, chosen))

    async def leave_set(self) -> None:
        """Leave the in-sync set, so that the master waits for this replica no more, unless too few would stay."""
        await self._swap_last(lambda group: left(self.own, group))

    async def _swap_last(self, wanted: Callable[[GroupState], GroupState | None]) -> None:
        """Write this replica's final state to the coordinator and stop taking part in the group."""
        self._is_leaving = True
        while True:
            seen = decode(await self._coordinator.read())
            new = None if seen.group is None else wanted(seen.group)
            if new is None:
                return
            if await self._coordinator.swap(seen.raw, encode(new)):
                extra = {"epoch": new.epoch, "master": new.master, "iss": new.iss}
                log.info("leaves: epoch %d, master %d, in sync %s", new.epoch, new.master, new.iss, extra=extra)
                return
            await asyncio.sleep(AGAIN_S)

    # ---- tasks

    async def _keep_lease(self) -> None:
        while True:
            with suppress(CoordinatorFailed):
                about = replace(self._about, directory=self.own.directory, ails=bool(self.own.ailment))
                if self.live.get(self.own.replica) != about or not await self._coordinator.renew():
                    await self._announce(about)
            await asyncio.sleep(self._lease_s / 3)

    async def _announce(self, about: MemberFacts) -> None:
        """Tell where this replica is, unless another directory answers under its id."""
        try:
            live = decode(await self._coordinator.read()).live
        except BadBody:
            return
        if not _is_taken(self.own, live):
            await self._coordinator.announce(self.own.replica, encode(about))

    async def _watch(self) -> None:
        while True:
            try:
                await self._coordinator.changed()
            except* CoordinatorFailed:
                await asyncio.sleep(LOOK_S)
            self.look()

    async def _look(self) -> None:
        while True:
            try:
                again = await self._act(decode(await self._coordinator.read()))
            except FireArrowError as error:
                self._unheard(error)
                again = False
            if again:
                self._wake.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()
            self._wake.clear()

    def _unheard(self, error: FireArrowError) -> None:
        now = asyncio.get_running_loop().time()
        if self._failures.count(now):
            log.warning("the coordinator does not answer: %s", error, extra={"reason": str(error)})
        if isinstance(self.duty, LeadStep) and now - self._heard_s > self._lease_s and not self.is_surrounded():
            self._take(WaitStep("the coordinator does not answer, and not every replica in sync reports"))

    # ---- decisions

    async def _act(self, seen: GroupView) -> bool:
        """Do the next step; return whether to look again at once."""
        group = seen.group
        if self._is_leaving:
            return False
        if group is None or group.iss_seq < self._newest:
            if self._newest:
                self._old(group)
                return False
        else:
            self._newest = group.iss_seq
        self._heard_s = asyncio.get_running_loop().time()
        if group is not None:
            self._compare(group)
        self.live = seen.live
        self.on_live()
        self.own = replace(self.own, ailment=self.ailment())
        ailing = frozenset(replica for replica, about in seen.live.items() if about.ails)
        is_gone = group is not None and self._gone_in == group.epoch
        heard = GroupNews(group, frozenset(seen.live), is_gone, ailing, _is_taken(self.own, seen.live))
        step = next_step(self.own, heard, self._min_iss)
        if isinstance(step, ProposeStep):
            return await self._propose(step, seen.raw)
        self._take(step)
        if isinstance(step, LeadStep) and self.own.leads == step.group.epoch:
            self.on_group(step.group)
            wanted = self.proposal()
            if wanted is not None and wanted[0] == group:
                log.info("proposes replicas %s in sync", wanted[1].iss, extra={"iss": wanted[1].iss})
                return await self._coordinator.swap(seen.raw, encode(wanted[1]))
        return False

    def _compare(self, group: GroupState) -> None:
        """Tell once when the group asks for another number of replicas than the settings here."""
        if group.min_iss != self._told_min_iss:
            self._told_min_iss = group.min_iss
            if group.min_iss != self._min_iss:
                log.warning(
                    "inSyncReplicas=%d counts for a new group only: this group asks for %d; change that with firearrow "
                    "failover set-in-sync-replicas",
                    self._min_iss,
                    group.min_iss,
                    extra={"settings": self._min_iss, "group": group.min_iss},
                )

    def _old(self, group: GroupState | None) -> None:
        """Ignore a state that is older than one that this run has seen."""
        number = "none" if group is None else f"number {group.iss_seq}"
        said = (
            f"the coordinator tells of an older state ({number}, after {self._newest}): its answer is old, or it was "
        )
        self._say(said + "restored from a backup", is_trouble=True)

    async def _propose(self, step: ProposeStep, raw: bytes | None) -> bool:
        new = step.new
        extra = {"epoch": new.epoch, "master": new.master, "iss": new.iss, "reason": step.why}
        if not await self._coordinator.swap(raw, encode(new)):
            await asyncio.sleep(AGAIN_S * self.own.replica)
            return True
        log.info("epoch %d, master %d, in sync %s: %s", new.epoch, new.master, new.iss, step.why, extra=extra)
        if self.own.may_lack and self.own.replica not in new.iss:
            await self._run_file.begin()
            self.own = replace(self.own, may_lack=False)
        self._newest = max(self._newest, new.iss_seq)
        self.own = replace(self.own, swapped=new.iss_seq)
        return True

    def _take(self, step: Step) -> None:
        if isinstance(step, WaitStep):
            self._say(step.why, is_trouble=step.is_trouble)
            is_taken = isinstance(self.duty, LeadStep | FollowStep) and self.own.promised == promised_by(
                self.duty.group
            )
            if is_taken and (isinstance(self.duty, FollowStep) or step.is_trouble):
                return  # what was read may be old; the part that was taken up goes on
        self.duty = step
        self.on_duty()

    def _say(self, why: str, *, is_trouble: bool) -> None:
        if why != self._said:
            self._said = why
            log.log(logging.WARNING if is_trouble else logging.INFO, "waits: %s", why, extra={"reason": why})

    async def took_up(self, group: GroupState, *, leads: bool) -> None:
        """Note that the promise of a state is durable, and whether this replica leads in it."""
        if leads and self.own.may_lack:
            await self._run_file.begin()
        self.own = replace(
            self.own,
            promised=promised_by(group),
            leads=group.epoch if leads else 0,
            may_lack=self.own.may_lack and not leads,
            has_log=True,
        )

    async def opened_log(self) -> None:
        """Note that the log of this replica is open, and so that all of it is synced."""
        await self._run_file.opened()

    def gave_up(self) -> None:
        """Note that this replica's part is over."""
        self.ailment = lambda: ""
        if self.own.leads:
            self.own = replace(self.own, leads=0, swapped=-1)
        self.look()


def _is_taken(own: OwnState, live: Mapping[int, MemberFacts]) -> bool:
    """Whether another directory answers under a replica's id."""
    other = live.get(own.replica)
    return other is not None and other.directory != own.directory
