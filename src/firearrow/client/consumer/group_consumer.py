"""The common part of push and pull consumers: subscriptions, the queues of a member, and their pauses."""

from types import TracebackType
from typing import Generic, Self

from firearrow.client.consumer.group_member import GroupMember
from firearrow.client.consumer.subscription import EVERYTHING, Expression
from firearrow.client.misuse import NeedsAwait
from firearrow.model import MessageQueue
from firearrow.serializers import V


class GroupConsumer(NeedsAwait, Generic[V]):
    """A member of a consumer group."""

    _member: GroupMember

    async def __aenter__(self) -> Self:
        """Open it."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def open(self) -> None:
        """Join the group."""
        await self._member.open()

    async def close(self) -> None:
        """Commit, leave the group, close connections. Unsettled messages are delivered again to other members."""
        await self._member.close()

    @property
    def client_id(self) -> str:
        """The client id of this consumer at brokers and in the group."""
        return self._member.parts.instance.id

    async def subscribe(self, topic: str, expression: Expression = EVERYTHING) -> None:
        """Subscribe to a topic, or change the expression of a subscription."""
        await self._member.subscribe(topic, expression)

    async def unsubscribe(self, topic: str) -> None:
        """End the subscription of a topic."""
        await self._member.unsubscribe(topic)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues of this member now."""
        return sorted(self._member.receiver.flows)

    def pause(self, *what: str | MessageQueue) -> None:
        """Stop delivery of these topics or queues, or of everything if none is given, until ``resume``.

        Running handlers go on; pulled messages wait here. The queues stay assigned to this member, and offsets move no
        further than the handled messages. A pause of a topic, or of everything, also covers queues assigned later; the
        pause of a single queue ends when the queue moves to another member.
        """
        self._member.pause(what)

    def resume(self, *what: str | MessageQueue) -> None:
        """Resume delivery of these topics or queues, or of everything if none is given."""
        self._member.resume(what)

    @property
    def paused(self) -> list[MessageQueue]:
        """The queues of this member that are paused now."""
        return sorted(flow.queue for flow in self._member.receiver.flows.values() if flow.is_paused)

    @property
    def rejected(self) -> int:
        """The number of messages that ``accept`` rejected."""
        return self._member.parts.receiver.acceptance.rejected

    def __aiter__(self) -> Self:
        """Iterate over messages."""
        return self
