"""Pulls: handing out messages, with long polls. Java: ``PullMessageProcessor``, ``DefaultPullMessageResultHandler``,
``PullRequestHoldService``.

A pull is answered at once from memory; a read of the device is a job, off the loop. At the end of a queue a pull that
may wait is parked, and is served again when a message arrives or its deadline is over. No other code runs between
finding nothing and parking, and after a read that had to wait the end of the queue is checked again, so no arrival is
missed. The arrivals of one turn are gathered, so a parked pull wakes once and takes all of them. However many pulls
wake together, a turn serves a bounded number of them, and equal reads are done once. While producers send, a pull whose
backlog is larger than one answer waits in `BacklogLine` for the sends of its turn.

A parked pull keeps only what is needed to answer it, and nothing after its connection has ended. A pull that wakes
while its peer has not read earlier answers is told to ask again, which costs few bytes.

Messages above the confirm offset are not visible here: they are not in a consume queue yet.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.broker.gate.gate import Gate
from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.pull.arrivals import Arrivals
from firearrow.broker.pull.backlog import MOST_IN_A_TURN, BacklogLine
from firearrow.broker.pull.checks import SUBSCRIPTION_FLAG, AdmittedPull, PullChecks
from firearrow.broker.pull.ending import PullEnding, finish
from firearrow.broker.pull.filter_costs import FilterCosts
from firearrow.broker.pull.long_poll import ParkedPull, ParkedPulls, Subscribed, Wanted
from firearrow.broker.pull.message_filter import NOT_COMPILED, MessageFilter
from firearrow.broker.pull.pull_reader import Made, PullReader
from firearrow.broker.pull.scanner import Scanner
from firearrow.broker.pull.woken import WokenPulls
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.settings.pull_settings import MAX_SUSPEND_MS
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.clients import ConsumerGroup
from firearrow.broker.tables.offset_book import OffsetBook
from firearrow.protocol.requests.message.pull import LitePullMessage, Pull, PullMessage
from firearrow.remoting.handlers import Answer, Call, Handlers, Later, Peer
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import NS_A_BYTE, Share, TurnBudgets, soon
from firearrow.store.placement import Rows
from firearrow.store.read.queue_reader import ReadResult
from firearrow.store.store import Store

COMMIT_FLAG: Final = 0x1
TAKEN_AT_ONCE: Final = 2000
"""Most parked pulls that wake, expire or are dropped in one turn of the loop."""
PART_NS: Final = 2_000_000
"""CPU time of every turn that is the woken pulls' own."""
LIGHT_CHARACTERS: Final = 256
"""A parked pull keeps texts up to this total length: shorter ones are not worth a copy of the request."""


class _Ticket(Struct, eq=False):
    """A parked pull, with the parts that are needed to serve it."""

    request: Pull
    later: Later
    peer: Peer
    call: Call | None = None
    """The pull as it came, if it has waited for its expression to be compiled: it may yet be parked."""


class PullHandlers:
    """Answers pulls, at once or after a long poll."""

    def __init__(
        self,
        memory_bytes: int,
        checks: PullChecks,
        budgets: TurnBudgets,
        *,
        settings: LiveSettings,
        store: Store,
        offsets: OffsetBook,
        lanes: Lanes,
        stats: BrokerStats,
        gate: Gate,
    ) -> None:
        self._settings = settings
        self._store = store
        self._checks = checks
        filters = self._filters = checks.filters
        self._offsets = offsets.table
        self._lanes = lanes
        self._clock = filters.clock
        costs = FilterCosts(stats)
        most_ns = MOST_IN_A_TURN * NS_A_BYTE
        pulls = budgets.share(Share.PULL, most_ns, most_ns)
        woken_pulls = budgets.share(Share.PULL, PART_NS, most_ns)
        woken = self._woken = WokenPulls(woken_pulls, filters.clock.share, self._serve, _host_of)
        scanner = Scanner(filters.clock)
        self.time_for_filter: Final = woken.time_for_filter
        self._reader = PullReader(store, memory_bytes, settings.value.pull, scanner, costs, woken.time_for_filter)
        least = settings.value.pull.max_transfer_bytes_beside_sends
        self._ending = PullEnding(store, offsets.table, stats, self._reader)
        self._backlogs: Final = BacklogLine(budgets, pulls, store.log, self._hand_out, least)
        self._configure()
        settings.on_change.append(self._configure)
        self._gate = gate
        self._on_commit = offsets.file.changed
        self.parked: Final[ParkedPulls[_Ticket]] = ParkedPulls()
        self._arrivals: Final = Arrivals(self.parked, filters.clock, costs, _group_of)
        self._is_waking = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # when the timer is due: not every loop's handle says so

    def _configure(self) -> None:
        """Apply changed settings; parked pulls keep their deadlines."""
        config = self._config = self._settings.value.pull
        self._checks.allows_lite = config.lite_pull_message_enable
        self._reader.configure(config)
        self._filters.configure(config)
        self._backlogs.least = config.max_transfer_bytes_beside_sends

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(PullMessage, self.pull)
        handlers.on(LitePullMessage, self.pull)

    # ---- asking

    def pull(self, request: Pull, call: Call) -> Answer | Later:
        """Hand out messages of a queue, or wait until one arrives."""
        admitted = self._checks.admit(request, call.peer)
        move = self._ending.moved(admitted)
        if move is not None:
            return move
        self._commit(admitted)  # before anything is awaited, so that this commit cannot overwrite a later one
        if admitted.wanted is NOT_COMPILED:
            return self._postpone(admitted, call)
        if (self._backlogs.is_open and self._has_backlog(request)) or (self._backlogs.is_full and self._finds(request)):
            later = self._backlogs.add(admitted, call)
            later.promise(self._reader.most_bytes(request))
            return later
        answer = self._hand_out(admitted, call)
        if isinstance(answer, Answer):
            self._backlogs.handed(len(answer.body))
        return answer

    def _finds(self, request: Pull) -> bool:
        """Whether the queue holds a message for this pull."""
        return self._store.max_offset(request.topic, request.queue_id) > request.queue_offset

    def _has_backlog(self, request: Pull) -> bool:
        """Whether the queue holds more messages than one answer takes."""
        most = self._config.max_transfer_count_on_message_in_memory
        return self._store.max_offset(request.topic, request.queue_id) - request.queue_offset > most

    def _hand_out(self, admitted: AdmittedPull, call: Call) -> Answer | Later:
        """Serve a pull that has not been parked."""
        if self._clock.is_turn_over and self._must_scan(admitted):
            return self._postpone(admitted, call)
        pulled = self._reader.read_hot(admitted)
        return self._read_cold(admitted, call.later(), call) if pulled is None else self._end(admitted, pulled, call)

    def _end(self, admitted: AdmittedPull, pulled: ReadResult, call: Call | None) -> Answer | Later:
        """Return the answer, or park the pull if it found nothing; a pull without its ``call`` is not parked again."""
        answer = self._ending.answer(admitted, pulled, may_wait=call is not None)
        if answer is None:
            assert call is not None
            return self._park(admitted, call)
        return answer

    def _must_scan(self, admitted: AdmittedPull) -> bool:
        """Whether a pull has messages to judge by a filter."""
        request = admitted.request
        return (
            isinstance(admitted.wanted, MessageFilter)
            and self._store.max_offset(request.topic, request.queue_id) > request.queue_offset
        )

    def _postpone(self, admitted: AdmittedPull, call: Call) -> Later:
        """Serve a pull in the next turn of the loop, because filters have used up their time in this one."""
        request, later = admitted.request, call.later()
        later.promise(self._reader.most_bytes(request))
        is_new = admitted.wanted is NOT_COMPILED
        ticket, key = _Ticket(request, later, call.peer, call if is_new else None), (request.topic, request.queue_id)
        self._woken.add([ParkedPull(key, request.queue_offset, admitted.wanted, ticket, 0, call.peer, 0, 0)])
        return later

    def _read_cold(self, admitted: AdmittedPull, later: Later, call: Call | None) -> Later:
        """Serve a pull by a job that reads the device."""
        later.promise(self._reader.most_bytes(admitted.request))
        self._lanes.add(later, WaitKind.DEVICE, self._cold(admitted, call))
        return later

    async def _cold(self, admitted: AdmittedPull, call: Call | None) -> Answer | Later:
        request = admitted.request
        pulled = await self._reader.read(admitted)
        if call is not None and self._ending.waits(request, pulled) and self._finds(request):
            pulled, call = await self._reader.read(admitted), None  # something came while the job waited
        return self._end(admitted, pulled, call)

    def _commit(self, admitted: AdmittedPull) -> None:
        request = admitted.request
        place = request.consumer_group, request.topic, request.queue_id
        is_taken = request.sys_flag & COMMIT_FLAG and self._gate.leads and self._offsets.has_room(*place)
        if is_taken and self._offsets.commit(*place, request.commit_offset):
            self._on_commit()

    # ---- waiting

    def _park(self, admitted: AdmittedPull, call: Call) -> Later:
        request, config = admitted.request, self._config
        held_ms = request.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        until_ms = elapsed_ms() + min(max(held_ms, 0), MAX_SUSPEND_MS)
        key = (request.topic, request.queue_id)
        later, wanted = call.hold(), admitted.wanted
        if not later.is_owed:
            return later
        has_own = request.sys_flag & SUBSCRIPTION_FLAG
        own_tags = _weight(wanted) if has_own else 0
        subscribed = None if has_own else (request.consumer_group, request.topic)
        ticket = _Ticket(_light(request), later, call.peer)
        given = request.queue_offset, wanted, until_ms, ticket
        displaced = self.parked.park(key, *given, owner=call.peer, own_tags=own_tags, subscribed=subscribed)
        self._woken.add(displaced)
        self._set_timer()
        return later

    def disconnected(self, peer: Peer) -> None:
        """Drop the pulls of a connection that ended, a bounded number of parked ones in every turn of the loop."""
        self._woken.drop(peer)
        self._backlogs.drop(peer)
        if not self.parked.leave(peer, TAKEN_AT_ONCE):
            soon(Share.CONNECTION, self.disconnected, peer)

    def arrived(self, rows: Rows) -> None:
        """Wake the pulls that wait for messages that became visible, at the end of this turn of the loop."""
        self._arrivals.add(rows)
        if self._arrivals.found and not self._is_waking:
            self._wake_some()

    def _wake_some(self) -> None:
        """Wake as many pulls as a turn of the loop has time for, and the rest in the next."""
        arrivals, room = self._arrivals.found, TAKEN_AT_ONCE
        while arrivals and room > 0:
            key, code = next(iter(arrivals))
            woken = self.parked.arrived(key, arrivals[key, code], code, room)
            self._woken.add(woken)
            room -= len(woken)
            if room > 0:
                del arrivals[key, code]
                room -= 1
        self._is_waking = bool(arrivals)
        if arrivals:
            soon(Share.PULL, self._wake_some)

    def recall(self, group: str, topic: str, queue_id: int) -> None:
        """Wake the parked pulls of a group whose offset an operator has moved."""
        self._woken.add(self.parked.recall((topic, queue_id), lambda ticket: ticket.request.consumer_group == group))

    def recall_all(self) -> None:
        """Wake all parked pulls, because users or rules have changed: who may still pull asks again."""
        self._recall_before(self.parked.next_number)

    def _recall_before(self, before: int) -> None:
        """Wake the pulls that were parked before others, a bounded number in every turn of the loop."""
        recalled = self.parked.recall_before(before, TAKEN_AT_ONCE)
        self._woken.add(recalled)
        if len(recalled) == TAKEN_AT_ONCE:
            soon(Share.PULL, self._recall_before, before)

    def resubscribed(self, group: ConsumerGroup, topics: Iterable[str]) -> None:
        """Wake the parked pulls of a group whose subscriptions to some topics have a new expression.

        They are served by the new one, and answered at once. Apache's go on with the old expression until they look
        again, every five seconds. Pulls that carry their expression are not concerned.
        """
        before = self.parked.next_number
        for topic in topics:
            self._recall_subscribed((group.name, topic), before)

    def _recall_subscribed(self, subscribed: Subscribed, before: int) -> None:
        """Wake the pulls of a subscription that were parked before it changed, a bounded number in every turn."""
        recalled = self.parked.recall_subscribed(subscribed, before, TAKEN_AT_ONCE)
        self._woken.add(recalled)
        if len(recalled) == TAKEN_AT_ONCE:
            soon(Share.PULL, self._recall_subscribed, subscribed, before)

    def _serve(self, parked: ParkedPull[_Ticket], made: Made) -> int:
        """Answer a woken pull, with or without messages; return how many bytes of messages it was handed."""
        return finish(parked.ticket.later, partial(self._late_answer, parked, made))

    def _late_answer(self, parked: ParkedPull[_Ticket], made: Made) -> Answer | Later | None:
        """Check a woken pull again and return its answer; no `Answer` when it goes on waiting."""
        ticket = parked.ticket
        admitted = self._checks.admit(ticket.request, ticket.peer, parked)
        if self._clock.is_turn_over and isinstance(admitted.wanted, MessageFilter):
            parked.wanted = admitted.wanted
            self._woken.add([parked])
            return None
        answer = self._ending.moved(admitted)
        if answer is not None:
            return answer
        if not ticket.peer.is_writable:
            return self._ending.again(admitted)
        if ticket.call is not None:
            return self._hand_out(admitted, ticket.call)
        hot = self._reader.read_once(admitted, made)
        return self._read_cold(admitted, ticket.later, None) if hot is None else self._end(admitted, hot, None)

    def _set_timer(self) -> None:
        deadline_ms = self.parked.next_deadline_ms
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_at(deadline_ms / 1000, self._expire, deadline_ms)

    def _expire(self, deadline_ms: int) -> None:
        self._timer = None
        # The loop may fire a timer slightly early: pulls of the deadline that it was set for count as expired.
        self._woken.add(self.parked.expired(max(deadline_ms, elapsed_ms()), TAKEN_AT_ONCE))
        self._set_timer()


def _host_of(parked: ParkedPull[_Ticket]) -> str:
    return parked.ticket.peer.address.host


def _group_of(ticket: _Ticket) -> str:
    return ticket.request.consumer_group


def _light(request: Pull) -> Pull:
    """Return a pull without long texts that are not needed to answer it."""
    texts = request.subscription, request.expression_type, request.lite_topic, request.proxy_forward_client_id
    if sum(len(text) for text in texts if text) <= LIGHT_CHARACTERS:
        return request
    return replace(request, subscription=None, expression_type=None, lite_topic=None, proxy_forward_client_id=None)


def _weight(wanted: Wanted) -> int:
    """Return the memory of the tags or the filter of a parked pull, in tags."""
    if wanted is None:
        return 0
    return wanted.weight if isinstance(wanted, MessageFilter) else len(wanted)
