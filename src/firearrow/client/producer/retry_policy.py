"""The policy by which a failed send is tried again or given up. Pure: time and random numbers are arguments.

Another broker is tried at once. After all brokers have been tried there is a back-off that grows with each round, with
jitter, so that many producers do not retry at the same moment. ``retries`` limits the attempts in which a broker was
asked. Attempts in which nothing was sent (connection refused, no route, the broker says that it is leaving) may go on
until the deadline, so that no send fails because a lone broker is restarted within ``send_timeout_ms``. The same holds
for a broker that refuses because a quota is used up: the back-off is then at least as long as the broker says, and a
send that would have to wait beyond its deadline is given up at once.

A message that must keep an order goes to its own queue again, and only if the failed attempt can no longer be stored
behind a later message: nothing was sent, the broker refused it, or the connection is lost. After a timeout the send is
given up, because the first attempt may still be stored. Concurrent sends to one queue may be reordered by a second
attempt; with ``retries=0`` such a message has one attempt.

The half of a transaction is sent ``only_once``: it has another attempt only if no attempt can have stored it.
"""

import random
from collections.abc import Iterable
from typing import Final

from firearrow.client.told_pause import told_pause_s
from firearrow.errors import (
    AccessDenied,
    ConnectionFailed,
    ConnectionLost,
    FireArrowError,
    NoRoute,
    RequestRefused,
    RequestTimedOut,
    SendFailed,
    Throttled,
)
from firearrow.protocol.codes import ResponseCode

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.25

RETRIED_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals after which another broker may take the message."""

WORTH_A_RETRY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY})
"""Refusals after which the same broker may take the message later."""


class Attempts:
    """The attempts of one send."""

    def __init__(self, retries: int, *, is_fixed: bool, only_once: bool = False) -> None:
        self._left = retries
        self._only_once = only_once
        self._is_fixed = is_fixed
        self._has_one_attempt = is_fixed and not retries
        self._pause_s = FIRST_PAUSE_S
        self._told: Throttled | None = None
        self.errors: list[FireArrowError] = []
        self.tried: set[str] = set()
        """Brokers that have failed since the last back-off."""
        self.may_have_happened = False

    def failed(self, error: FireArrowError, broker: str | None, *, was_asked: bool) -> bool:
        """Note a failed attempt; return whether another is allowed. ``was_asked``: whether a broker was to be asked."""
        self.errors.append(error)
        if broker is not None:
            self.tried.add(broker)
        if isinstance(error, Throttled) and (self._told is None or error.retry_after_ms < self._told.retry_after_ms):
            self._told = error
        self.may_have_happened |= was_asked and error.may_have_happened
        return self._allows_another(error, was_asked=was_asked)

    def _allows_another(self, error: FireArrowError, *, was_asked: bool) -> bool:
        if self._has_one_attempt or isinstance(error, AccessDenied):
            return False
        if self._only_once and self.may_have_happened:
            return False
        retried = WORTH_A_RETRY if self._is_fixed else RETRIED_CODES
        if isinstance(error, RequestRefused) and error.code not in retried:
            return False
        if is_free(error, was_asked=was_asked):
            return True
        if self._is_fixed and not isinstance(error, RequestRefused | ConnectionLost):
            return False
        self._left -= 1
        return self._left >= 0

    def weak(self, broker: str) -> bool:
        """Note that a broker stored the message, but not with status OK; return whether to try another broker."""
        self.tried.add(broker)
        self._left -= 1
        return self._left >= 0

    def pause_s(self, brokers: Iterable[str], chance: random.Random) -> float:
        """Return the back-off before the next attempt: 0 while there is an untried broker."""
        if not self._is_fixed and any(broker not in self.tried for broker in brokers):
            return 0.0
        self.tried.clear()
        told, self._told = self._told, None
        if told is not None:
            return told_pause_s(told, chance)
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s * chance.uniform(0.5, 1.0)

    def failure(self, topic: str, limit_ms: float) -> FireArrowError:
        """Return the error to raise when no attempt is left."""
        if not self.errors:
            return RequestTimedOut(f"no time was left to send a message of {topic!r} within {limit_ms:.0f} ms")
        last, count = self.errors[-1], len(self.errors)
        if isinstance(last, AccessDenied) and count == 1:
            return last
        retryable = last.retryable or (isinstance(last, RequestRefused) and last.code in WORTH_A_RETRY)
        times = f"{count} attempts" if count > 1 else "1 attempt"
        hint = "it may be stored nevertheless" if self.may_have_happened else "it is not stored"
        message = f"a message of topic {topic!r} was not acknowledged after {times}, {hint}: {last}"
        return SendFailed(message, retryable=retryable, may_have_happened=self.may_have_happened)


def is_free(error: FireArrowError, *, was_asked: bool) -> bool:
    """Whether an attempt does not count against ``retries``: nothing was sent, or the broker says when to try again."""
    if isinstance(error, RequestRefused):
        return error.code == ResponseCode.GO_AWAY or isinstance(error, Throttled)
    return not was_asked or isinstance(error, ConnectionFailed | NoRoute) or not error.may_have_happened
