"""Sends taken many at a time leave the files and get the answers of sends taken one by one."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from firearrow.broker.handlers.message.send_bulk import BulkSends
from firearrow.broker.settings.config import BrokerSettings
from firearrow.errors import RequestRefused
from firearrow.model import Message
from firearrow.protocol.requests.message.send import SendBatchMessage, SendMessage
from firearrow.protocol.sends import SendsArrived, SendShapes
from firearrow.record.batch import encode_batch
from firearrow.remoting.handlers import Creditor
from firearrow.testing.sim.world import World
from tests.simulation.store.kit import files_below
from tests.unit.broker.whole import Client, Simulated, a_send, settings_of, simulate

Said = tuple[Any, bytes]
BATCH = encode_batch([Message("T", b"x", {"UNIQ_KEY": f"{number:032X}"}) for number in range(3)])


def said(number: int, **fields: Any) -> Said:
    """A send as a stock producer's, different from all others."""
    properties = f"KEYS\x01k{number:04}\x02UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02TAGS\x01{'AB'[number % 2]}\x02"
    values = {"properties": properties, "queue_id": number % 4, "born_timestamp": 1_700_000_000_000 + number}
    return a_send(**{**values, **fields}), b"%d" % number * (number % 7 + 1)


def sends() -> Iterator[Said]:
    """Mostly plain ones, with something odd now and then."""
    odd = {
        30: said(30, queue_id=9),
        41: said(41, properties="DELAY\x013\x02UNIQ_KEY\x01A\x02"),
        52: (a_send(kind=SendBatchMessage, batch=True), BATCH),
        60: said(60, kind=SendMessage),
        71: (said(71)[0], b""),
        85: said(85, properties="UNIQ_KEY\x01z#\x02"),
    }
    for number in range(1200):
        yield odd.get(number) or said(number)


async def outcome(client: Client, one: Said) -> object:
    try:
        return (await client.ask(*one)).answer
    except RequestRefused as refusal:
        return refusal.code, str(refusal)


def files_and_answers(settings: BrokerSettings) -> tuple[dict[str, bytes], list[object]]:
    """Everything that a broker keeps and says of sends that come in heaps of twenty."""

    async def scenario(_world: World, broker: Simulated, client: Client) -> tuple[dict[str, bytes], list[object]]:
        await client.send()
        waiting, answers = list(sends()), []
        for start in range(0, len(waiting), 20):
            answers += await asyncio.gather(*(outcome(client, one) for one in waiting[start : start + 20]))
        return await files_below(broker.node.disk, "commitlog", "consumequeue", "index"), answers

    return simulate(scenario, settings)


@pytest.mark.parametrize("sync", [False, True])
def test_both_ways_are_the_same(sync: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    send = BulkSends.send

    def counted(self: BulkSends, sends: SendsArrived, peer: Creditor) -> bool:
        is_taken = send(self, sends, peer)
        taken.append(len(sends.data) if is_taken else 0)
        return is_taken

    monkeypatch.setattr(BulkSends, "send", counted)
    together = files_and_answers(settings_of(sync=sync))
    assert sum(taken) > 150_000, "most of them were taken together"
    monkeypatch.setattr(BulkSends, "send", lambda _self, _sends, _peer: False)
    one_by_one = files_and_answers(settings_of(sync=sync))
    monkeypatch.setattr(SendShapes, "learn", lambda _self, _word, _data: None)
    assert files_and_answers(settings_of(sync=sync)) == one_by_one, (
        "sends that are handed back are taken in their order"
    )
    assert together[1] == one_by_one[1]
    assert together[0].keys() == one_by_one[0].keys()
    assert [name for name, data in together[0].items() if data != one_by_one[0][name]] == []
