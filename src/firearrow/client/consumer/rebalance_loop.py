"""The loop that divides the queues of a member's topics: at the start, at every notice, and every ``rebalance_ms``.

A notice comes from a broker (members changed), from a changed route, and from a changed subscription. `Membership`
finds out which queues are the member's; the loop assigns them to its receiver, and remembers since when and why a topic
could not be divided. Java: ``RebalanceService``.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from firearrow.client.consumer.division.rebalance import Membership
from firearrow.client.consumer.queue.intake import Receiver
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance

UNSETTLED_S: Final = 1.0
"""Longest back-off before queues are divided again if that failed for a topic."""
FIRST_UNSETTLED_S: Final = 0.1
"""The first back-off; each further one is twice as long. A topic's first message often creates the topic."""
UNDIVIDED_S: Final = 0.9
"""Seconds that a topic may be without queues before a warning: a new group needs a moment."""
MIN_REBALANCE_S: Final = 0.1


class RebalanceLoop:
    """Divides queues on behalf of one open consumer. ``notice`` is set when they should be divided again."""

    def __init__(
        self,
        settings: ConsumerSettings,
        subscriptions: Mapping[str, Subscription],
        notice: asyncio.Event,
        instance: Instance,
        receiver: Receiver,
        membership: Membership,
    ) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._instance = instance
        self._receiver = receiver
        self._membership = membership
        self.notice: Final = notice
        self.divides = True
        """Whether queues are divided among members; not after ``assign``."""
        self.has_divided = False
        self.is_ready: Final = asyncio.Event()
        self.undivided: dict[str, tuple[float, str]] = {}
        """Since when the queues of a topic could not be divided, and why."""

    def stop(self) -> None:
        """Divide no more: the application names the queues."""
        self.divides = False
        self.notice.set()

    async def run(self) -> None:
        """Divide the queues of all topics, until `stop` or cancelled."""
        for topic in list(self._subscriptions):
            self._instance.want(topic)
        is_first = True
        unsettled_s = FIRST_UNSETTLED_S
        while self.divides:
            self.notice.clear()
            is_settled = await self._divide(is_first=is_first)
            is_first = False
            pause_s = self._settings.rebalance_ms / 1000
            if is_settled:
                unsettled_s = FIRST_UNSETTLED_S
            else:
                pause_s = min(pause_s, unsettled_s)
                unsettled_s = min(2 * unsettled_s, UNSETTLED_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self.notice.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(MIN_REBALANCE_S)  # several notices together cause one division

    async def _divide(self, *, is_first: bool) -> bool:
        known = self._instance.routes.topics()
        division = await self._membership.divide(self._subscriptions)
        if is_first or known != self._instance.routes.topics():
            # New brokers do not know this member yet: send them a heartbeat, then ask again.
            await self._instance.beat()
            division = await self._membership.divide(self._subscriptions)
        self.has_divided = True
        if not self.divides:
            return True
        now = asyncio.get_running_loop().time()
        self.undivided = {
            topic: (self.undivided.get(topic, (now, ""))[0], reason) for topic, reason in division.unknown.items()
        }
        self._say_undivided(now)
        if division.is_settled:
            self.is_ready.set()
        for topic, queues in division.queues.items():
            self._receiver.assign(topic, queues)
        for topic in {queue.topic: None for queue in self._receiver.flows}:
            if topic not in self._subscriptions:
                self._receiver.assign(topic, ())
        return division.is_settled

    def _say_undivided(self, now: float) -> None:
        """Warn of topics without queues for this member, once that has lasted a moment."""
        for topic, (since, reason) in self.undivided.items():
            if now - since >= UNDIVIDED_S:
                what = "group %s gets nothing of topic %s: %s"
                extra = {"topic": topic, "reason": reason}
                self._instance.trouble.say(now, f"topic {topic}", what, self._settings.group, topic, reason, **extra)
