"""The transactions of one producer: sends halves, ends them at their brokers, and answers check-backs.

The request that ends a transaction is one-way in Java. Here it waits for the broker's answer, so that a commit that did
not reach the broker is reported; `half.may_repeat` says when it is sent again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from firearrow.client.instance import Instance
from firearrow.client.name_servers import UNANSWERED
from firearrow.client.producer.delivery import Choice, Delivery
from firearrow.client.producer.outgoing import OutgoingMessage
from firearrow.client.producer.result import read_result
from firearrow.client.producer.retry_policy import FIRST_PAUSE_S, LONGEST_PAUSE_S
from firearrow.client.producer.settings import ProducerSettings
from firearrow.client.producer.transaction.check_back import Check, CheckBacks
from firearrow.client.producer.transaction.half import StoredHalf, may_repeat
from firearrow.client.producer.transaction.state import TransactionState, TransactionTable
from firearrow.client.producer.transaction.users_function import UsersFunction, check_users_function
from firearrow.errors import (
    ClientClosed,
    FireArrowError,
    NoRoute,
    RequestRefused,
    SendFailed,
    TransactionRefused,
    TransactionUnconfirmed,
)
from firearrow.model import Message
from firearrow.model.names import CHECK_MAX_TIME_TOPIC
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.threads import Threads

log: Final = logging.getLogger(__name__)

CHECK_WORKERS: Final = 1
EXECUTE_WORKERS: Final = 8
"""Threads for plain functions: of check one, as Java's default is, of local transactions several."""


class TransactionCoordinator:
    """The transactions of one producer.

    ``opened`` returns its instance, or raises ``ClientClosed``. ``check_usable`` raises ``ClientClosed`` after a fork
    and in another event loop, where a transaction must not be ended.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        delivery: Delivery,
        opened: Callable[[], Instance],
        check_usable: Callable[[], None],
        check: Check | None,
    ) -> None:
        if check is not None:
            check_users_function(check, "check")
        self._settings = settings
        self._opened = opened
        self.check_usable: Final = check_usable
        self._delivery = delivery
        self._check = check
        self._table = TransactionTable()
        self._backs: CheckBacks | None = None
        self._pools: list[Threads] = []
        self._execute_pool: Threads | None = None

    # -- beginning and end

    def open(self) -> Handlers:
        """Forget an earlier opening; return the handlers of check-backs."""
        self._table = TransactionTable()
        check = None if self._check is None else UsersFunction(self._check, self._pool(CHECK_WORKERS, "check"))
        self._backs = CheckBacks(self._settings, self._table, check)
        return self._backs.handlers

    def start(self, instance: Instance) -> None:
        """Begin to answer check-backs; with a check function those of every broker."""
        assert self._backs is not None
        instance.tasks.spawn(self._backs.run(), "check-backs")
        if self._check is not None:
            instance.meet_all_brokers()

    def close(self) -> None:
        """End the threads, and tell of transactions that are open."""
        pools, self._pools, self._execute_pool = self._pools, [], None
        for pool in pools:
            pool.close()
        if count := len(self._table):
            group = self._settings.group
            what = (
                "the producer of group %s was closed while %d of its transactions were open; "
                "brokers ask the other producers of the group about them"
            )
            log.warning(what, group, count, extra={"group": group, "transactions": count})

    def _pool(self, count: int, name: str) -> Threads:
        pool = Threads(count, f"{self._settings.group} {name}")
        self._pools.append(pool)
        return pool

    # -- transactions

    async def begin(
        self, message: Message, outgoing: OutgoingMessage, choose: Choice | None, timeout_ms: float | None
    ) -> StoredHalf:
        """Send a half; raise ``SendFailed`` if it is not stored as configured: then it is rolled back."""
        key, table = outgoing.unique_key, self._table
        table.begin(key)
        try:
            code, answer, queue = await self._delivery.send(outgoing, choose, timeout_ms, only_once=True)
        except BaseException:
            table.end(key)
            raise
        half = StoredHalf(message, read_result(code, answer, queue, key))
        if not half.sent.is_ok:
            is_gone = await self.try_rollback(half)
            became = "so it was rolled back" if is_gone else "and its rollback is not confirmed: the broker will ask"
            raise SendFailed(
                f"the half of a transaction of topic {message.topic!r} is stored, but not as configured "
                f"({half.sent.status}), {became}; try the transaction again",
                retryable=True,
                may_have_happened=False,
            )
        return half

    async def end(self, half: StoredHalf, state: TransactionState) -> None:
        """End a transaction; raise if its broker refused that (``TransactionRefused``) or did not confirm it."""
        table = self._table
        try:
            await self._end(half, state)
        except BaseException as error:
            table.keep(half.unique_key, state)
            if isinstance(error, RequestRefused) and not may_repeat(error, state):
                raise self._refused(half, state, error) from error
            if isinstance(error, FireArrowError):
                raise self._unconfirmed(half, state, error) from error
            raise
        table.end(half.unique_key)

    async def try_rollback(self, half: StoredHalf) -> bool:
        """Roll back; log a warning if the broker did not confirm that, and return whether it did."""
        try:
            await self.end(half, TransactionState.ROLLBACK)
        except (TransactionUnconfirmed, TransactionRefused) as error:
            log.warning("%s", error, extra={"id": half.unique_key, "topic": half.message.topic, "reason": str(error)})
            return False
        return True

    def leave_unknown(self, half: StoredHalf) -> None:
        """Let the broker ask back."""
        self._table.end(half.unique_key)

    async def execute(self, function: Callable[[Message], object], message: Message) -> TransactionState:
        """Call a local transaction and return its state."""
        if self._execute_pool is None:
            self._execute_pool = self._pool(EXECUTE_WORKERS, "transaction")
        return checked_state(await UsersFunction(function, self._execute_pool)(message), message)

    async def _end(self, half: StoredHalf, state: TransactionState) -> None:
        instance, loop = self._opened(), asyncio.get_running_loop()
        request = half.end(self._settings.group, state)
        deadline, pause_s = loop.time() + self._settings.send_timeout_ms / 1000, FIRST_PAUSE_S
        while True:
            try:
                address = instance.routes.master(half.sent.queue.broker_name)
                if address is None:
                    raise NoRoute(f"the master of broker {half.sent.queue.broker_name} is not known now")
                await instance.caller.call(address, request, timeout_ms=(deadline - loop.time()) * 1000)
            except (*UNANSWERED, NoRoute, RequestRefused) as error:
                wait_s = pause_s * instance.doors.chance.uniform(0.5, 1.0)
                if not may_repeat(error, state) or loop.time() + wait_s >= deadline:
                    raise
                instance.hurry()
                await asyncio.sleep(wait_s)
                instance, pause_s = self._opened(), min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                return

    def _unconfirmed(self, half: StoredHalf, state: TransactionState, error: FireArrowError) -> TransactionUnconfirmed:
        answer = "this one repeats its decision while it is open, and later the check function decides"
        if isinstance(error, ClientClosed):
            answer = "this one is closed, so the check function of one that is open decides"
        return TransactionUnconfirmed(
            f"broker {half.sent.queue.broker_name} has not confirmed the {state.lower()} of {_name(half)}: {error}; "
            f"the broker will ask the producers of group {self._settings.group}: {answer}",
            may_have_happened=error.may_have_happened,
        )

    def _refused(self, half: StoredHalf, state: TransactionState, error: RequestRefused) -> TransactionRefused:
        return TransactionRefused(
            f"broker {half.sent.queue.broker_name} refused the {state.lower()} of {_name(half)}: {error}; if the "
            f"transaction is over there, another producer of group {self._settings.group} has decided it, or it was "
            f"given up and lies in {CHECK_MAX_TIME_TOPIC}; if it is open, the broker asks and this producer repeats "
            "its decision"
        )


def _name(half: StoredHalf) -> str:
    return f"transaction {half.unique_key} of topic {half.message.topic!r}"


def checked_state(returned: object, message: Message) -> TransactionState:
    """Return the state that a local transaction returned; UNKNOWN, with a warning, if it is none."""
    if isinstance(returned, TransactionState):
        return returned
    what = (
        "the local transaction of %s (topic %s) returned %r, which counts as unknown: let it return "
        "TransactionState.COMMIT, ROLLBACK or UNKNOWN"
    )
    extra = {"id": message.unique_key, "topic": message.topic}
    log.warning(what, message.unique_key, message.topic, returned, extra=extra)
    return TransactionState.UNKNOWN
