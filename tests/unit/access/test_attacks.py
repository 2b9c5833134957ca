"""Attacks on access that a review found: each had let somebody do what nobody allowed."""

import asyncio
import json
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

import firearrow.broker.broker as broker_module
import firearrow.broker.guarded as guarded_module
from firearrow.access.access import AccessControl
from firearrow.access.account_file import encode_accounts
from firearrow.access.accounts import Accounts
from firearrow.access.guard import Guard
from firearrow.access.rules import User, UserType
from firearrow.access.settings import STATEFUL, AccessConfig
from firearrow.access.witness import Witness
from firearrow.errors import FireArrowError
from firearrow.model.signature import SignatureMethod
from firearrow.protocol.auth import Credentials, FreshSigner, Signer, sign, sign_fresh
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.command import Encoding
from firearrow.protocol.connection import Connection, RequestArrived
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.auth import AuthDeleteUser, AuthListUser, CopyAccounts
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker, GetAllTopicConfig
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.naming.registration import RegisterBroker, UnregisterBroker
from firearrow.protocol.serialize import decode_request, encode_request
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Answer, Call, Creditor, Handlers
from firearrow.runtime.clock import SystemClock
from firearrow.testing.sim.world import World
from tests.unit.access.servers import ALICE, CONFIG, INNER, ROOT, OnePeer, Place, refusal, served
from tests.unit.broker.sim import SUSPEND
from tests.unit.broker.test_replication import Group
from tests.unit.broker.whole import Client, Names, a_send

NO_PERMISSION = 16
NOTHING_YET = frozenset({0, 19, 20, 21})


def arrived(
    request: Request[Any], extra: dict[str, str] | None = None, change: Callable[[bytes], bytes] = bytes
) -> Any:
    """A request as a server sees it, its header changed on the way."""
    header = change(encode_request(Encoding.JSON, request, 7, extra=extra)[8:])
    (event,) = Connection().receive_data(struct.pack(">II", 4 + len(header), len(header)) + header)
    assert isinstance(event, RequestArrived)
    return event


# ---- one header with two codes


@pytest.mark.parametrize("first", [35, 3005])
def test_a_header_with_two_codes_is_the_request_of_the_last(first: int) -> None:
    for _ in range(2):  # the decoder learns a code the first time
        heading = decode_request(
            Encoding.JSON, b'{"code":%d,"code":25,"extFields":{"clientID":"x"},"flag":0,"opaque":1}' % first
        )
        assert heading.request is not None
        assert heading.code == heading.request.code == 25


def test_a_guard_asks_nobody_about_a_request_of_another_code() -> None:
    async def main(_world: World) -> None:
        known = type("Known", (), {"value": Accounts({"root": User(*ROOT, UserType.SUPER)})})()
        guard = Guard(CONFIG, known, "C", Witness(None), SystemClock())
        request = GetAllTopicConfig()
        event = arrived(request, Signer(Credentials(*ROOT))(request, b""))
        call = Call(event, cast("Creditor", OnePeer()))
        guard(event.request, call, lambda _request, _call: None)
        with pytest.raises(FireArrowError, match="two codes"):
            guard(AuthListUser(), call, lambda _request, _call: None)

    World(1).run(main)


# ---- copies of users


def copied(keys: tuple[str, str], extra: Callable[[Any], dict[str, str]], peer: OnePeer, config: AccessConfig) -> bytes:
    """The answer of a master to a request for its users."""

    async def main(world: World) -> bytes:
        node = world.node("master")
        access = AccessControl(config, node.disk, "C", node.clock)
        await access.open()
        handlers = Handlers()
        access.copies.add_to(handlers)
        handler = handlers.guarded(access.guard).by_code[int(CopyAccounts.code)]
        if config.authentication_strategy:
            topics = arrived(GetAllTopicConfig(), Signer(Credentials(*keys))(GetAllTopicConfig(), b""))
            access.guard(topics.request, Call(topics, cast("Creditor", peer)), lambda _request, _call: None)
        event = arrived(CopyAccounts(), extra(node.clock))
        answer = handler(event.request, Call(event, cast("Creditor", peer)))
        assert isinstance(answer, Answer)
        return bytes(answer.body)

    return World(1).run(main)


def fresh(clock: Any) -> dict[str, str]:
    credentials = Credentials(*INNER, method=SignatureMethod.SHA256)
    return FreshSigner(credentials, clock.now_ms, "slave")(CopyAccounts(), b"")


def recorded(_clock: Any) -> dict[str, str]:
    return Signer(Credentials(*INNER))(GetAllTopicConfig(), b"")


def forged(clock: Any) -> dict[str, str]:
    return {**fresh(clock), "Signature": "x"}


def test_a_slave_with_a_certificate_gets_the_users() -> None:
    assert b"marker-of-root" in copied(INNER, fresh, OnePeer("slave"), CONFIG)
    assert b"marker-of-root" in copied(INNER, fresh, OnePeer(host="127.0.0.1"), CONFIG)


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, authentication_strategy=STATEFUL)])
@pytest.mark.parametrize("extra", [recorded, forged])
def test_a_recorded_signature_of_another_request_brings_no_secrets(
    extra: Callable[[Any], dict[str, str]], config: AccessConfig
) -> None:
    with pytest.raises(FireArrowError, match="check signature failed"):
        copied(INNER, extra, OnePeer("shop"), config)


def test_a_preamble_does_not_make_a_stranger_a_neighbour() -> None:
    with pytest.raises(FireArrowError, match="mutual TLS"):
        copied(INNER, fresh, OnePeer(host="127.0.0.1", is_forwarded=True), CONFIG)


@pytest.mark.parametrize("knows_the_secret", [False, True])
def test_a_slave_takes_no_users_from_who_says_to_be_master(
    knows_the_secret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stranger registers at a name server without access, has no certificate, and may even know the secret."""
    secret = INNER[1] if knows_the_secret else "mine"
    evil = Accounts({name: User(name, secret, UserType.SUPER) for name in ("mallory", INNER[0])})
    guarded = guarded_module.guarded

    async def of_a_stranger(life: Any, handlers: Handlers, assembly: Any, *rest: Any) -> Any:
        if not assembly.settings.value.access.is_on:
            handlers.on(CopyAccounts, lambda _request, _call: Answer(body=encode_accounts(evil)))
        front = await guarded(life, handlers, assembly, *rest)
        if assembly.settings.value.access.is_on and not knows_the_secret:
            replication = rest[-1]
            replication.metadata.accounts.checks_servers = True  # then the copy itself must show the secret
        return front

    monkeypatch.setattr(broker_module, "guarded", of_a_stranger)

    async def main(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start())
        group.slave.settings = replace(group.slave.settings, access=CONFIG)
        await group.slave.start()
        await group.master.start()
        await asyncio.sleep(60)
        node = world.node("operator")
        for keys, expected in ((ROOT, 0), (("mallory", secret), NO_PERMISSION)):
            client = Client(node, group.slave.address)
            client.caller = Caller(node.network, sign=Signer(Credentials(*keys)))
            assert (await refusal(client, AuthListUser()))[0] == expected
        await group.slave.node.stop()
        await group.master.node.stop()

    World(1).run(main)


# ---- what is signed


def test_a_field_cannot_move_into_the_body() -> None:
    whole = {"srcGroup": "a", "topic": "A"}
    moved = {"srcGroup": "a"}
    assert sign_fresh(314, whole, b"", "s") != sign_fresh(314, moved, b"5:topic1:A", "s")


# ---- name servers


def test_a_broker_counts_for_the_cluster_in_which_it_is_known() -> None:
    async def main(place: Place) -> None:
        stranger = await place.make(ALICE, ("Cluster:test", "Update", "Allow"), server=place.names)
        fields: dict[str, Any] = {"broker_addr": "10.6.6.6:10911", "broker_id": 0, "cluster_name": "test"}
        register = RegisterBroker(broker_name="broker-a", ha_server_addr="10.6.6.6:10912", **fields)
        assert (await refusal(stranger, register))[0] == NO_PERMISSION
        assert (await refusal(stranger, UnregisterBroker(broker_name="broker-a", **fields)))[0] == NO_PERMISSION
        own = RegisterBroker(broker_name="broker-t", ha_server_addr="10.6.6.6:10912", **fields)
        assert (await refusal(stranger, own))[0] != NO_PERMISSION

    served(main)


# ---- parked pulls


def test_a_parked_pull_of_a_deleted_user_gets_nothing() -> None:
    async def main(place: Place) -> None:
        root = place.client(ROOT)
        alice = await place.make(ALICE, ("Topic:T", "Sub", "Allow"), ("Group:g", "Sub", "Allow"))
        await root.send("T", b"old")
        await root.ask(UpdateAndCreateSubscriptionGroup(), encode_body(SubscriptionGroupConfig(group_name="g")))
        pull = PullMessage(
            consumer_group="g",
            topic="T",
            queue_id=0,
            queue_offset=1,
            max_msg_nums=32,
            sys_flag=SUSPEND | 4,
            commit_offset=0,
            suspend_timeout_millis=15_000,
            sub_version=0,
            subscription="*",
        )
        waiting = asyncio.create_task(alice.ask(pull, timeout_ms=20_000, accept=NOTHING_YET))
        await asyncio.sleep(1)  # of simulated time
        assert not waiting.done()
        await root.ask(AuthDeleteUser(username="alice"))
        await asyncio.sleep(1)
        await root.send("T", b"secret")
        assert not (await waiting).body
        assert (await refusal(alice, pull))[0] == NO_PERMISSION

    served(main)


# ---- who is named, and who is known by a certificate


def test_the_audit_log_names_who_has_proved_to_ask() -> None:
    async def main(world: World) -> list[Any]:
        node = world.node("server")
        config = replace(CONFIG, certificate_users=True, authentication_strategy=STATEFUL)
        access = AccessControl(config, node.disk, "C", node.clock)
        await access.open()
        await access.accounts.put(access.accounts.value.create_user(User(*ALICE)))
        request = DeleteTopicInBroker(topic="bills")
        signed = Signer(Credentials(*ALICE))(request, b"")
        twice = OnePeer()
        for peer, extra, change in (
            (OnePeer("alice"), None, bytes),
            (OnePeer("alice"), None, lambda header: header.replace(b"{}", b'{"\\u0041ccessKey":"root"}')),
            (twice, signed, bytes),
            (twice, signed, lambda header: header.replace(b'"alice"', b'"alice","AccessKey":"root"', 1)),
            (OnePeer(), {"AccessKey": "root"}, bytes),
        ):
            event = arrived(request, extra, change)
            with pytest.raises(FireArrowError):
                access.guard(event.request, Call(event, cast("Creditor", peer)), lambda _request, _call: None)
        writing = asyncio.create_task(access.run())
        await asyncio.sleep(2)  # of simulated time
        writing.cancel()
        lines = (await node.disk.read_whole("audit/refused-00000001.jsonl")).splitlines()
        return [json.loads(line)["who"] for line in lines if b"DELETE_TOPIC" in line]

    assert World(1).run(main) == ["User:alice"] * 4 + ["User:root?"]


@pytest.mark.parametrize("topic", ["AccessKey", "my-AccessKeys"])
def test_the_word_in_another_field_does_not_hide_a_certificate(topic: str) -> None:
    async def main(world: World) -> None:
        node = world.node("server")
        access = AccessControl(replace(CONFIG, certificate_users=True), node.disk, "C", node.clock)
        await access.open()
        event = arrived(a_send(topic, properties="AccessKeyId\x017\x02"))
        access.guard(event.request, Call(event, cast("Creditor", OnePeer("root"))), lambda _request, _call: None)
        assert access.guard.asker is not None

    World(1).run(main)


def test_an_unsigned_heartbeat_shows_nobody_half_messages() -> None:
    config = replace(CONFIG, authentication_whitelist="34", authorization_whitelist="34")
    known = type("Known", (), {"value": Accounts({"alice": User(*ALICE)})})()
    guard, peer = Guard(config, known, "C", Witness(None), SystemClock()), cast("Creditor", OnePeer())
    event = arrived(HeartBeat())
    guard(event.request, Call(event, peer), lambda _request, _call: None)
    assert not guard.may_see(peer, "bills")


def test_the_signature_of_the_wire_is_unchanged() -> None:
    assert sign({"a": "1", "Signature": "x"}, b"b", "s") == sign({"a": "1"}, b"b", "s")
