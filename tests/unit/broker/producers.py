"""Producers of transactions on simulated machines: they begin and end transactions, and answer questions by a rule."""

import asyncio
from collections.abc import Callable
from typing import Any

from firearrow.model import StoredMessage
from firearrow.model.flags import COMMIT
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState, EndTransaction
from firearrow.record.decode import decode
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Handlers
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node
from tests.unit.broker.whole import Client

UNKNOWN = 0


class TransactionClient(Client):
    """A producer of a group. ``rule`` is its answer to a question: COMMIT, ROLLBACK, UNKNOWN, or None for nothing."""

    def __init__(
        self,
        node: Node,
        broker: Address,
        rule: Callable[[StoredMessage], int | None] = lambda _: None,
        group: str = "P",
    ) -> None:
        super().__init__(node, broker)
        self.rule = rule
        self.group = group
        self.questions: list[tuple[CheckTransactionState, StoredMessage]] = []
        handlers = Handlers()
        handlers.on(CheckTransactionState, self._asked)
        self.caller = Caller(node.network, handlers=handlers)

    def _asked(self, request: CheckTransactionState, call: Call) -> None:
        message = decode(call.body)
        self.questions.append((request, message))
        answer = self.rule(message)
        if answer is not None:
            call.peer.push(
                self.end_request(
                    request.tran_state_table_offset, request.commit_log_offset, answer, request.msg_id or "", True
                )
            )

    def end_request(
        self, queue_offset: int, physical: int, answer: int, key: str = "", is_checked: bool = False
    ) -> EndTransaction:
        return EndTransaction(
            producer_group=self.group,
            tran_state_table_offset=queue_offset,
            commit_log_offset=physical,
            commit_or_rollback=answer,
            from_transaction_check=is_checked,
            msg_id=key,
            transaction_id=key,
        )

    async def join(self) -> None:
        """Say that this producer is there."""
        data = HeartbeatData(client_id=f"client-{id(self)}", producer_data_set=[ProducerData(group_name=self.group)])
        await self.ask(HeartBeat(), encode_body(data))

    async def asked_again(self) -> None:
        """Wait for the next question."""
        before = len(self.questions)
        await until(lambda: len(self.questions) > before)

    async def half(
        self, body: bytes = b"hello", *, now_ms: int, key: str = "K", topic: str = "T", **more: str
    ) -> SendAnswer:
        """Begin a transaction."""
        properties = {"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": self.group, "TAGS": "a", **more}
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        reply = await self.send(
            topic,
            body,
            properties=text,
            sys_flag=4,
            queue_id=1,
            born_timestamp=now_ms,
            producer_group=self.group,
            flag=7,
        )
        assert reply.answer is not None
        return reply.answer

    async def end(self, half: SendAnswer, answer: int = COMMIT, **options: Any) -> Any:
        """End a transaction and wait for the answer."""
        return await self.ask(self.end_of(half, answer), **options)

    def end_of(self, half: SendAnswer, answer: int = COMMIT) -> EndTransaction:
        return self.end_request(half.queue_offset, int(half.msg_id[-16:], 16), answer, half.transaction_id or "")


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for a condition, in the time of the simulation."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - in the time of the simulation
            await asyncio.sleep(0.01)
