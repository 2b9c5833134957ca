"""Whether a signed request is fresh: made a short time ago, and not seen before. Pure.

A request signed with HMAC-SHA256 names the time at which it was signed, its sender (a random text that a client draws
when it starts) and a number that the sender counts up. A request is refused when its time is further than the window
from the server's, or before the server started: what came before the start is not remembered. Of every sender
the highest number is remembered, and which of the `NUMBERS` before it have come; lower ones are refused. Senders are
forgotten when all that came from them is too old; requests from before that time are refused ever after, even if the
clock jumps back.

Invariant: within one run of a server, a signature is accepted at most once.
"""

from typing import Final

NUMBERS: Final = 1024
"""The most later requests of its sender that may arrive before a request."""
SENDERS_OF_A_USER_MAX: Final = 1000
SENDERS_MAX: Final = 100_000
"""The most senders that are remembered: of one user, so that nobody takes the room of others, and of all users."""
FORGETS_IN_A_WINDOW: Final = 4


class _Sender:
    __slots__ = ("came", "highest", "time_ms")

    def __init__(self, number: int, time_ms: int) -> None:
        self.highest = number
        self.came = 1
        """Bit n: the number ``highest - n`` has come."""
        self.time_ms = time_ms
        """The latest time of its requests."""


class Freshness:
    """The senders that a server has heard of, and what has come from them."""

    def __init__(
        self,
        window_ms: int,
        started_ms: int,
        senders_of_a_user_max: int = SENDERS_OF_A_USER_MAX,
        senders_max: int = SENDERS_MAX,
    ) -> None:
        self._window_ms = window_ms
        self._since_ms = started_ms
        """Requests signed before this time are refused: who sent them may be forgotten."""
        self._of_a_user_max = senders_of_a_user_max
        self._max = senders_max
        self._senders: dict[str, dict[str, _Sender]] = {}
        """By user, then by sender."""
        self._count = 0
        self._forgot_ms = 0

    def fault(self, user: str, sender: str, number: int, time_ms: int, now_ms: int) -> str:
        """Return why a request is not fresh, or an empty text; a fresh one is remembered."""
        if abs(time_ms - now_ms) > self._window_ms:
            off = (time_ms - now_ms) / 1000
            allowed = self._window_ms / 1000
            return f"it was signed {off:+.1f} s from the time here, {allowed:g} s are allowed: set the clocks"
        if time_ms < self._since_ms:
            return "it was signed before the time from which this server remembers requests: sign it again"
        known = self._senders.get(user, {}).get(sender)
        if known is None:
            return self._begin(user, sender, number, time_ms, now_ms)
        return _repeated(known, number, time_ms)

    def _begin(self, user: str, sender: str, number: int, time_ms: int, now_ms: int) -> str:
        if not self._has_room(user):
            self._forget(now_ms)
        if not self._has_room(user):
            return "too many senders are remembered, and there is no room for another: ask again later"
        self._senders.setdefault(user, {})[sender] = _Sender(number, time_ms)
        self._count += 1
        return ""

    def _has_room(self, user: str) -> bool:
        return self._count < self._max and len(self._senders.get(user, ())) < self._of_a_user_max

    def _forget(self, now_ms: int) -> None:
        """Forget senders of whom every request would be refused for its time; not at every request of a crowd."""
        if abs(now_ms - self._forgot_ms) < self._window_ms / FORGETS_IN_A_WINDOW:
            return
        self._forgot_ms = now_ms
        oldest = now_ms - self._window_ms
        kept = {
            user: {name: sender for name, sender in senders.items() if sender.time_ms >= oldest}
            for user, senders in self._senders.items()
        }
        self._senders = {user: senders for user, senders in kept.items() if senders}
        self._count = sum(map(len, self._senders.values()))
        self._since_ms = max(self._since_ms, oldest)


def _repeated(sender: _Sender, number: int, time_ms: int) -> str:
    ahead = number - sender.highest
    if ahead > 0:
        sender.came = ((sender.came << min(ahead, NUMBERS)) | 1) & ((1 << NUMBERS) - 1)
        sender.highest = number
    else:
        bit = 1 << -ahead if -ahead < NUMBERS else 0
        if not bit or sender.came & bit:
            return "it has come before, or is far behind others of its sender: sign it again"
        sender.came |= bit
    sender.time_ms = max(sender.time_ms, time_ms)
    return ""
