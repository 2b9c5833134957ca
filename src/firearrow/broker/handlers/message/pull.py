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
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.broker.lanes import Wait
from firearrow.broker.pull import answer as pullanswer
from firearrow.broker.pull.arrivals import Arrivals
from firearrow.broker.pull.backlog import BacklogLine
from firearrow.broker.pull.checks import SUBSCRIPTION_FLAG, Admitted, PullChecks
from firearrow.broker.pull.filter_costs import FilterCosts
from firearrow.broker.pull.filters import Filters
from firearrow.broker.pull.long_poll import Parked, ParkedPulls, Subscribed, Wanted
from firearrow.broker.pull.message_filter import NOT_COMPILED, MessageFilter
from firearrow.broker.pull.pull_reader import Made, PullReader
from firearrow.broker.pull.scanner import Scanner
from firearrow.broker.pull.woken import WokenPulls
from firearrow.broker.settings.pull_settings import MAX_SUSPEND_MS
from firearrow.broker.tables.clients import ConsumerGroup
from firearrow.broker.tables.tables import Tables
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.message.pull import LitePullMessage, Pull, PullMessage
from firearrow.remoting.handlers import Answer, Call, Handlers, Later, Peer
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import Share, soon
from firearrow.store.placement import Rows
from firearrow.store.read.queue_reader import ReadResult, ReadStatus

COMMIT_FLAG: Final = 0x1
SUSPEND_FLAG: Final = 0x2
TAKEN_AT_ONCE: Final = 2000
"""Most parked pulls that wake, expire or are dropped in one turn of the loop."""
LOOKED: Final = (ReadStatus.FOUND, ReadStatus.NO_MATCHED_MESSAGE)
"""The reads that looked at messages; others move a pull to where messages are."""
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

    def __init__(self, tables: Tables, memory_bytes: int, filters: Filters) -> None:
        settings = self._settings = tables.settings
        self._store = tables.store
        self._checks = PullChecks(tables, filters)
        self._filters = filters
        self._offsets = tables.offsets
        self._lanes = tables.lanes
        self._clock = filters.clock
        costs = FilterCosts(tables.stats)
        woken = self._woken = WokenPulls(filters.clock, self._serve)
        scanner = Scanner(filters.clock)
        self.time_for_filter: Final = woken.time_for_filter
        self._reader = PullReader(
            tables.store, memory_bytes, settings.value.pull, scanner, costs, woken.time_for_filter
        )
        least = settings.value.pull.max_transfer_bytes_beside_sends
        self._backlogs: Final = BacklogLine(tables.store.log, self._hand_out, least)
        self._configure()
        settings.on_change.append(self._configure)
        self._stats = tables.stats
        self._gate = tables.gate
        self._on_commit = tables.offset_file.changed
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
        move = self._take_move(admitted)
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

    def _hand_out(self, admitted: Admitted, call: Call) -> Answer | Later:
        request = admitted.request
        if self._clock.is_turn_over and self._must_scan(admitted):
            return self._postpone(admitted, call)
        hot = self._reader.read_hot(admitted)
        if hot is None:
            later = call.later()
            later.promise(self._reader.most_bytes(request))
            self._lanes.add(later, Wait.DEVICE, self._pull_cold(admitted, call))
            return later
        self._note_pulled(admitted, hot.next_offset)
        code = pullanswer.code_of(hot, request.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & SUSPEND_FLAG:
            return self._park(admitted, call)
        return self._answer(admitted, hot, code)

    def _must_scan(self, admitted: Admitted) -> bool:
        """Whether a pull has messages to judge by a filter."""
        request = admitted.request
        return (
            isinstance(admitted.wanted, MessageFilter)
            and self._store.max_offset(request.topic, request.queue_id) > request.queue_offset
        )

    def _postpone(self, admitted: Admitted, call: Call) -> Later:
        """Serve a pull in the next turn of the loop, because filters have used up their time in this one."""
        request, later = admitted.request, call.later()
        later.promise(self._reader.most_bytes(request))
        is_new = admitted.wanted is NOT_COMPILED
        ticket, key = _Ticket(request, later, call.peer, call if is_new else None), (request.topic, request.queue_id)
        self._woken.add([Parked(key, request.queue_offset, admitted.wanted, ticket, 0, call.peer, 0, 0)])
        return later

    async def _pull_cold(self, admitted: Admitted, call: Call) -> Answer | Later:
        """Do what `_hand_out` does, with a read of the device."""
        request = admitted.request
        pulled = await self._reader.read(admitted)
        self._note_pulled(admitted, pulled.next_offset)
        code = pullanswer.code_of(pulled, request.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and request.sys_flag & SUSPEND_FLAG:
            if self._store.max_offset(request.topic, request.queue_id) <= request.queue_offset:
                return self._park(admitted, call)
            pulled = await self._reader.read(admitted)
            code = pullanswer.code_of(pulled, request.queue_offset)
        return self._answer(admitted, pulled, code)

    def _answer(self, admitted: Admitted, pulled: ReadResult, code: int) -> Answer:
        request = admitted.request
        wanted = admitted.wanted
        if wanted is not None and pulled.status in LOOKED and pulled.next_offset > request.queue_offset:
            skipped = pulled.next_offset - request.queue_offset - pulled.messages
            self._stats.filtered(request.consumer_group, request.topic, skipped)
        if code == ResponseCode.SUCCESS:
            self._stats.pulled(request.consumer_group, request.topic, pulled.messages, pulled.size)
        else:
            self._stats.missed()
        broker = self._reader.suggested_broker(admitted, pulled)
        return pullanswer.answer(pulled, code, admitted.topic_flag, admitted.group_flag, broker)

    def _take_move(self, admitted: Admitted) -> Answer | None:
        request = admitted.request
        offset = self._offsets.take_move(request.consumer_group, request.topic, request.queue_id)
        if offset is None:
            return None
        return pullanswer.moved(offset, *self._ends(request), admitted.topic_flag, admitted.group_flag)

    def _ends(self, request: Pull) -> tuple[int, int]:
        """Return the first offset of a pull's queue and the offset after the last."""
        queue = self._store.queues.find(request.topic, request.queue_id)
        if queue is None:
            return 0, 0
        return self._store.queues.min_offset(queue, self._store.log.min_offset), queue.max_offset

    def _note_pulled(self, admitted: Admitted, next_offset: int) -> None:
        request = admitted.request
        self._offsets.note_pulled(request.consumer_group, request.topic, request.queue_id, next_offset)

    def _commit(self, admitted: Admitted) -> None:
        request = admitted.request
        place = request.consumer_group, request.topic, request.queue_id
        is_taken = request.sys_flag & COMMIT_FLAG and self._gate.leads and self._offsets.has_room(*place)
        if is_taken and self._offsets.commit(*place, request.commit_offset):
            self._on_commit()

    # ---- waiting

    def _park(self, admitted: Admitted, call: Call) -> Later:
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
        """Drop the parked pulls of a connection that ended, a bounded number in every turn of the loop."""
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

    def _serve(self, parked: Parked[_Ticket], made: Made) -> int:
        """Answer a woken pull, with or without messages; return how many bytes of messages it was handed."""
        later = parked.ticket.later
        if not later.is_owed:
            return 0
        try:
            answer = self._late_answer(parked, made)
        except Exception as error:  # noqa: BLE001 - the other woken pulls must still be served
            later.fail(error)
            return 0
        if answer is None:
            return 0
        later.answer(answer)
        return len(answer.body)

    def _late_answer(self, parked: Parked[_Ticket], made: Made) -> Answer | None:
        """Check a woken pull again and return its answer; None when a job answers it."""
        ticket = parked.ticket
        request, later = ticket.request, ticket.later
        admitted = self._checks.admit(request, ticket.peer, parked)
        if self._clock.is_turn_over and isinstance(admitted.wanted, MessageFilter):
            parked.wanted = admitted.wanted
            self._woken.add([parked])
            return None
        answer = self._take_move(admitted)
        if answer is not None:
            return answer
        if not ticket.peer.is_writable:
            return pullanswer.again(
                request.queue_offset, *self._ends(request), admitted.topic_flag, admitted.group_flag
            )
        if ticket.call is not None:
            handed = self._hand_out(admitted, ticket.call)
            return handed if isinstance(handed, Answer) else None
        hot = self._reader.read_once(admitted, made)
        if hot is not None:
            return self._woken_answer(admitted, hot)
        later.promise(self._reader.most_bytes(request))
        self._lanes.add(later, Wait.DEVICE, self._serve_cold(admitted))
        return None

    async def _serve_cold(self, admitted: Admitted) -> Answer:
        return self._woken_answer(admitted, await self._reader.read(admitted))

    def _woken_answer(self, admitted: Admitted, pulled: ReadResult) -> Answer:
        request = admitted.request
        self._offsets.note_pulled(request.consumer_group, request.topic, request.queue_id, pulled.next_offset)
        return self._answer(admitted, pulled, pullanswer.code_of(pulled, request.queue_offset))

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
