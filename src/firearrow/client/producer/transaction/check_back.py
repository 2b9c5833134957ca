"""Answers the check-backs of brokers: which state a half has whose producer has not ended it.

A check-back is a one-way request with the half as its body. The answer is an END_TRANSACTION over the same connection,
which the broker answers unless it says UNKNOWN. The check function is called for one check-back at a time, in the
order in which they came; a broker that confirms nothing delays no other. A check-back that is not answered comes again,
15 times in all with Apache's defaults.

Java: ``ClientRemotingProcessor.checkTransactionState``, ``DefaultMQProducerImpl.checkTransactionState``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from firearrow.client.producer.settings import ProducerSettings
from firearrow.client.producer.transaction.half import answer_to
from firearrow.client.producer.transaction.state import TransactionState, TransactionTable
from firearrow.client.producer.transaction.users_function import UsersFunction, reason_of
from firearrow.client.tasks import cancellations, is_cancellation
from firearrow.errors import BadRecord, FireArrowError
from firearrow.model import StoredMessage, keys
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState
from firearrow.record.decode import decode
from firearrow.remoting.handlers import Call, Handlers, Peer
from firearrow.telemetry.damped import Trouble

log: Final = logging.getLogger(__name__)

MOST_WAITING: Final = 2000
"""Check-backs that may wait for their answer; further ones are dropped, because they come again."""
MOST_UNCONFIRMED: Final = 64
"""Answers that may wait for the confirmation of their broker."""
LARGEST_BODY_BYTES: Final = 64 * 1024 * 1024
"""Limit of a decompressed body: a larger one is handed to the check function compressed."""

Check = Callable[[StoredMessage], TransactionState] | Callable[[StoredMessage], Awaitable[TransactionState]]
"""Finds out, from a half, what became of its local transaction."""


class CheckBack(NamedTuple):
    """One check-back that waits for its answer."""

    asked: CheckTransactionState
    half: StoredMessage
    peer: Peer


class CheckBacks:
    """Answers check-backs on behalf of one producer."""

    def __init__(self, settings: ProducerSettings, table: TransactionTable, check: UsersFunction | None) -> None:
        self._group = settings.group
        self._table = table
        self._check = check
        self._trouble = Trouble(log)
        self._waiting: deque[CheckBack] = deque()
        self._has_come = asyncio.Event()
        self.handlers: Final = Handlers()
        self.handlers.on(CheckTransactionState, self.asked)

    def asked(self, request: CheckTransactionState, call: Call) -> None:
        """Take a check-back; it is answered in its turn."""
        now = asyncio.get_running_loop().time()
        try:
            half = decode(call.body, max_body_bytes=LARGEST_BODY_BYTES, keep_bad_bodies=True)
        except BadRecord as error:
            what = "a broker at %s asked about a transaction, but its message cannot be read: %s"
            self._trouble.say(now, "unread", what, call.peer.address, error, reason=str(error))
            return
        if half.properties.get(keys.PGROUP) != self._group:
            return  # of a producer that was opened with the same client id before
        if len(self._waiting) >= MOST_WAITING:
            what = "more than %d check-backs of group %s wait, further ones are dropped and come again: check is slow"
            self._trouble.say(now, "full", what, MOST_WAITING, self._group, group=self._group)
            return
        self._waiting.append(CheckBack(request, half, call.peer))
        self._has_come.set()

    async def run(self) -> None:
        """Answer check-backs until cancelled."""
        places = asyncio.Semaphore(MOST_UNCONFIRMED)
        async with asyncio.TaskGroup() as confirmations:
            while True:
                while self._waiting:
                    back = self._waiting.popleft()
                    state = self._table.state_of(back.half.unique_key) or await self._ask(back.half)
                    await places.acquire()
                    sent = confirmations.create_task(self._answer(back, state))
                    sent.add_done_callback(lambda _sent: places.release())
                self._has_come.clear()
                await self._has_come.wait()

    async def _answer(self, back: CheckBack, state: TransactionState) -> None:
        answer = answer_to(back.asked, back.half, self._group, state)
        try:
            if state is TransactionState.UNKNOWN:
                back.peer.push(answer)  # brokers do not answer it
            else:
                await back.peer.call(answer)
                self._table.confirm(back.half.unique_key)
        except FireArrowError as error:
            what = "the broker at %s did not confirm the %s of transaction %s, and asks again if it is open: %s"
            words = back.peer.address, state.lower(), back.half.unique_key, error
            self._say("unconfirmed", what, words, back.half, str(error))

    async def _ask(self, half: StoredMessage) -> TransactionState:
        """Return what the check function says; UNKNOWN without one, or if it fails."""
        if self._check is None:
            what = (
                "a broker asks about transaction %s of topic %s, which this process does not know; the message waits: "
                "give the producer check=..., a function that looks up whether the transaction was committed"
            )
            self._say("no check", what, (half.unique_key, half.topic), half, "no check function")
            return TransactionState.UNKNOWN
        before = cancellations()
        try:
            answer = await self._check(half)
            if cancellations() > before:
                raise asyncio.CancelledError  # a plain function runs to its end, and then its caller is cancelled
        except BaseException as error:  # sys.exit too: the function runs in the client's task, not in the user's
            if is_cancellation(error, before):
                raise
            what = "check failed for transaction %s of topic %s, the broker will ask again: %s"
            reason = reason_of(error)
            extra = {"id": half.unique_key, "topic": half.topic, "reason": reason}
            log.exception(what, half.unique_key, half.topic, reason, extra=extra)
            return TransactionState.UNKNOWN
        if isinstance(answer, TransactionState):
            return answer
        what = (
            "check returned %r for transaction %s of topic %s, which counts as unknown: let it return "
            "TransactionState.COMMIT, ROLLBACK or UNKNOWN"
        )
        self._say("no state", what, (answer, half.unique_key, half.topic), half, "not a state")
        return TransactionState.UNKNOWN

    def _say(self, kind: str, text: str, words: tuple[object, ...], half: StoredMessage, reason: str) -> None:
        extra = {"id": half.unique_key, "topic": half.topic, "group": self._group, "reason": reason}
        self._trouble.say(asyncio.get_running_loop().time(), kind, text, *words, **extra)
