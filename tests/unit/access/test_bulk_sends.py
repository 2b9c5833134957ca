"""Signed sends that arrive together: handled at once for a user who is remembered, and never past the rules."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from msgspec.structs import replace

from firearrow.access.accounts import Accounts
from firearrow.access.guard import Guard
from firearrow.access.rules import Action, Decision, Resource, ResourceKind, ResourcePattern, Rule, User
from firearrow.access.settings import STATEFUL
from firearrow.access.witness import Witness
from firearrow.broker.handlers.message.send_bulk import BulkSends
from firearrow.protocol.auth import ACCESS_KEY, Credentials, Signer
from firearrow.protocol.command import Encoding
from firearrow.protocol.connection import Connection, RequestArrived
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.auth import AuthDeleteAcl
from firearrow.protocol.send_shape import SendShape
from firearrow.protocol.sends import SendsArrived
from firearrow.protocol.serialize import encode_request
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Creditor
from firearrow.runtime.clock import SystemClock
from tests.unit.access.servers import ALICE, CONFIG, ROOT, OnePeer, Place, refusal, served
from tests.unit.broker.test_send_bulk import said
from tests.unit.broker.whole import Client

NO_PERMISSION = 16
REMEMBERING = replace(CONFIG, authentication_strategy=STATEFUL)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of sends that were handled at once, for every time."""
    taken: list[int] = []
    send = BulkSends.send

    def counting(self: BulkSends, sends: SendsArrived, peer: Creditor) -> bool:
        is_taken = send(self, sends, peer)
        taken.append(len(sends.columns.bodies) if is_taken else 0)
        return is_taken

    with monkeypatch.context() as patched:
        patched.setattr(BulkSends, "send", counting)
        yield taken


async def heaps(client: Client, topic: str, count: int = 60) -> set[int]:
    """The codes that answer sends which come in heaps of twenty."""
    codes: set[int] = set()
    for start in range(0, count * 20, 20):
        requests = [said(number, topic=topic) for number in range(start, start + 20)]
        codes |= {code for code, _ in await asyncio.gather(*(refusal(client, *request) for request in requests))}
    return codes


@pytest.fixture(autouse=True)
def handled_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with counted(monkeypatch) as taken:
        yield taken


def test_a_remembered_users_sends_are_handled_at_once_until_a_rule_is_taken(
    handled_at_once: list[int],
) -> None:
    taken = handled_at_once

    async def main(place: Place) -> None:
        alice = await place.make(ALICE, ("Topic:T", "Pub", "Allow"), ("Topic:other", "Pub", "Deny"))
        assert await heaps(alice, "other") == {NO_PERMISSION}
        assert taken == []
        assert await heaps(alice, "T") == {0}
        assert await heaps(alice, "T") == {0}
        assert taken[-1] > 0, "the last shape is one that is remembered"
        taken.clear()
        await place.client(ROOT).ask(AuthDeleteAcl(subject="User:alice", resource="Topic:T"))
        assert await heaps(alice, "T") == {NO_PERMISSION}
        assert taken == []

    served(main, REMEMBERING)


def test_another_name_on_the_same_connection_needs_its_own_signature(
    handled_at_once: list[int],
) -> None:
    taken = handled_at_once

    async def main(place: Place) -> None:
        alice = await place.make(ALICE, ("Topic:T", "Pub", "Allow"))
        signer, names = Signer(Credentials(*ALICE)), [ALICE[0]]

        def sign(request: Request[Any], body: Any) -> dict[str, str]:
            return {**signer(request, body), ACCESS_KEY: names[0]}

        alice.caller = Caller(place.network_of_clients, sign=sign)
        assert await heaps(alice, "T") == {0}
        assert sum(taken) > 100
        taken.clear()
        names[0] = "alicf"
        assert await heaps(alice, "T") == {NO_PERMISSION}
        assert taken == []

    served(main, REMEMBERING)


def test_where_every_signature_is_checked_sends_are_handled_one_by_one(
    handled_at_once: list[int],
) -> None:
    async def main(place: Place) -> None:
        alice = await place.make(ALICE, ("Topic:T", "Pub", "Allow"))
        assert await heaps(alice, "T") == {0}
        assert handled_at_once == []

    served(main)


class Known:
    """Accounts that a test changes."""

    def __init__(self) -> None:
        alice = User(*ALICE)
        rule = Rule(Resource(ResourceKind.TOPIC, ResourcePattern.LITERAL, "T"), (Action.PUB,), Decision.ALLOW)
        self.value = Accounts({alice.name: alice}).put_rules("User:alice", [rule])


def test_what_is_remembered_ends_with_any_change_of_users_or_rules() -> None:
    known, peer, clock = Known(), cast("Creditor", OnePeer()), SystemClock()
    guard = Guard(REMEMBERING, known, "C", Witness(None), clock)
    request, body = said(1, topic="T")
    frame = encode_request(
        Encoding.JSON, request, 7, body_size=len(body), extra=Signer(Credentials(*ALICE))(request, body)
    )
    (event,) = Connection().receive_data(frame + body)
    assert isinstance(event, RequestArrived)
    shape = SendShape.learn(event.encoding, event.header)
    assert shape is not None
    columns = shape.cut(frame + body)
    assert columns is not None
    sends, passes = SendsArrived(shape, columns, frame + body), guard.passes_sends
    assert passes is not None
    assert not passes(sends, peer), "nobody has signed yet"
    guard(event.request, Call(event, peer), lambda _request, _call: None)
    for _ in range(2):
        guard.asker = None
        assert passes(sends, peer)
        assert guard.asker == known.value.users["alice"], "quotas count for this user"
    known.value = known.value.delete_rules("User:alice")
    assert not passes(sends, peer)
