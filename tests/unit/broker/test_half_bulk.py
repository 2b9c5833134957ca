"""Half messages taken many at a time, with ends between them, leave what those taken one by one leave."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.handlers.message.send_bulk import BulkSends
from firearrow.errors import RequestRefused
from firearrow.model.flags import COMMIT, ROLLBACK
from firearrow.model.names import HALF_TOPIC
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.protocol.sends import SendsArrived, SendShapes
from firearrow.remoting.handlers import Creditor
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, a_send, settings_of, simulate

HEAP = 20
ODD = {
    25: "DELAY\x013\x02",
    46: "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02",
    67: "__previousHalf__\x011\x02",
    88: "REAL_TOPIC\x01another\x02",
    109: "__transactionId__\x01another\x02",
    130: "TRAN_MSG\x01false\x02",
}

Said = tuple[Any, bytes]
Kept = tuple[dict[str, list[object]], list[object]]


def half(number: int, group: str, **fields: Any) -> Said:
    """A half message as a stock producer's; a few ask for something special."""
    properties = f"TRAN_MSG\x01true\x02UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02{group}{ODD.get(number, '')}"
    values = {"properties": properties, "queue_id": number % 4, "sys_flag": 4, "born_timestamp": 10**12 + number}
    return a_send(**{**values, **fields}), b"%d" % number


def end_of(answer: SendAnswer, number: int) -> Said:
    request = EndTransaction(
        producer_group="P",
        tran_state_table_offset=answer.queue_offset,
        commit_log_offset=int(answer.msg_id[-16:], 16),
        commit_or_rollback=ROLLBACK if number % 5 == 0 else COMMIT,
        msg_id=answer.transaction_id or "",
        transaction_id=answer.transaction_id,
    )
    return request, b""


async def outcome(client: Client, one: Said) -> object:
    try:
        return (await client.ask(*one)).answer
    except RequestRefused as refusal:
        return refusal.code, str(refusal)


async def kept(client: Client, topic: str, queue_id: int) -> list[object]:
    """All that records of a queue hold but their places in the log: op messages between them come in other turns."""
    found: list[object] = []
    while read := await client.stored(topic, queue_id, len(found)):
        places = {"physical_offset": 0, "prepared_transaction_offset": 0, "store_timestamp": 0}
        found += [(replace(one, **places), list(one.properties.items())) for one in read]
    return found


def records_and_answers(group: str, *, sync: bool = False) -> Kept:
    """The records and answers of a broker for half messages in heaps, with the ends of the heap before between them."""

    async def scenario(_world: World, _broker: Simulated, client: Client) -> Kept:
        await client.send()
        answers: list[object] = []
        ends: list[Said] = []
        for start in range(0, 1000, HEAP):
            numbers = range(start, start + HEAP)
            halves = [half(number, group) for number in numbers]
            mixed = [one for pair in zip(ends, halves, strict=True) for one in pair] if ends else halves
            heard = await asyncio.gather(*(outcome(client, one) for one in mixed))
            stored = [one for one in heard if isinstance(one, SendAnswer)]
            ends = [end_of(one, number) for number, one in zip(numbers, stored, strict=True)]
            answers += [replace(one, msg_id="") if isinstance(one, SendAnswer) else one for one in heard]
        places = [(HALF_TOPIC, 0), *(("T", queue_id) for queue_id in range(4))]
        return {f"{topic} {queue_id}": await kept(client, topic, queue_id) for topic, queue_id in places}, answers

    return simulate(scenario, settings_of(sync=sync))


@pytest.mark.parametrize(("group", "sync"), [("PGROUP\x01P\x02", False), ("", False), ("PGROUP\x01P\x02", True)])
def test_both_ways_are_the_same(group: str, sync: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    send = BulkSends.send

    def counted(self: BulkSends, sends: SendsArrived, peer: Creditor) -> bool:
        is_taken = send(self, sends, peer)
        taken.append(len(sends.columns.bodies) if is_taken else 0)
        return is_taken

    monkeypatch.setattr(BulkSends, "send", counted)
    together = records_and_answers(group, sync=sync)
    assert sum(taken) > 200, "most of them were taken together"
    monkeypatch.setattr(BulkSends, "send", lambda _self, _sends, _peer: False)
    handed_back = records_and_answers(group, sync=sync)
    monkeypatch.setattr(SendShapes, "learn", lambda _self, _word, _data: None)
    one_by_one = records_and_answers(group, sync=sync)
    assert len(together[0]["RMQ_SYS_TRANS_HALF_TOPIC 0"]) == 1000
    assert sum(map(len, together[0].values())) > 1700, "most of them are committed"
    assert together == handed_back == one_by_one


def test_a_broker_that_takes_no_transactions_refuses_all_of_them() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        await client.send()
        said = [half(number, "") for number in range(200, 300)]
        for start in range(0, 80, HEAP):
            await asyncio.gather(*(client.ask(*one) for one in said[start : start + HEAP]))
        await client.ask(UpdateBrokerConfig(), b"rejectTransactionMessage=true")
        heard = await asyncio.gather(*(outcome(client, one) for one in said[80:]))
        assert {one[0] if isinstance(one, tuple) else one for one in heard} == {ResponseCode.NO_PERMISSION}
        assert len(await client.stored(HALF_TOPIC, 0, 60)) == 20

    simulate(scenario, settings_of())
