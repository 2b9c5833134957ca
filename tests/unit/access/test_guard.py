"""Requests at a broker and a name server with access on: every code, and every way to be refused."""

from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from firearrow.access.declared import DECLARED
from firearrow.access.guard import LAST_WITHOUT_UNIQUE_KEY
from firearrow.access.settings import AccessConfig
from firearrow.errors import SettingsError
from firearrow.protocol import header_json
from firearrow.protocol.auth import ACCESS_KEY, SIGNATURE, Credentials, Signer
from firearrow.protocol.bodies.admin.auth import AclInfo, UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests import ALL
from firearrow.protocol.requests.admin.auth import (
    AuthCreateUser,
    AuthDeleteAcl,
    AuthDeleteUser,
    AuthGetAcl,
    AuthGetUser,
    AuthListAcl,
    AuthListUser,
    AuthUpdateUser,
    CopyAccounts,
)
from firearrow.protocol.requests.admin.config import GetBrokerConfig
from firearrow.protocol.requests.group.heartbeat import GetConsumerListByGroup, HeartBeat, UnregisterClient
from firearrow.protocol.requests.group.reset import CloneGroupOffset
from firearrow.protocol.requests.message.query import QueryMessage
from firearrow.protocol.requests.naming.route import GetRouteInfoByTopic
from firearrow.remoting.caller import Caller
from tests.unit.access.servers import ALICE, CONFIG, INNER, ROOT, Place, refusal, sample, served
from tests.unit.broker.whole import Simulated, a_send, settings_of, simulate

NOT_SUPPORTED = 3
NO_PERMISSION = 16
BROKERS = 79
NAME_SERVERS = 33
"""The number of requests that each of the two answers, those for users and rules included."""


async def walked(place: Place, server: Any, keys: tuple[str, str] | None) -> dict[type[Request[Any]], tuple[int, str]]:
    client = place.client(keys, server)
    return {kind: await refusal(client, sample(kind)) for kind in ALL}


@pytest.mark.parametrize(("server", "count"), [("broker", BROKERS), ("names", NAME_SERVERS)])
def test_every_code_is_declared_and_nobody_passes_without_an_account(server: str, count: int) -> None:
    async def main(place: Place) -> None:
        address = place.names if server == "names" else place.server.address
        nobody = await walked(place, address, None)
        answered = {kind for kind, (code, _) in nobody.items() if code != NOT_SUPPORTED}
        assert {nobody[kind] for kind in answered} == {(NO_PERMISSION, "username cannot be null.")}
        assert len(answered) == count
        wrong = await walked(place, address, (ROOT[0], "wrong"))
        wrong.pop(CopyAccounts)  # needs another kind of signature
        assert {wrong[kind] for kind in answered if kind in wrong} == {(NO_PERMISSION, "check signature failed.")}
        await place.make(ALICE, server=address)
        without = await walked(place, address, ALICE)
        let_in = {kind.code.name for kind in answered if without[kind][0] != NO_PERMISSION}
        assert let_in == ({"END_TRANSACTION", "UNREGISTER_CLIENT"} if server == "broker" else set()) | unread(without)
        root = await walked(place, address, ROOT)
        assert not [kind for kind in answered if "declares nothing" in root[kind][1] or "permission" in root[kind][1]]

    served(main)


def unread(answers: dict[type[Request[Any]], tuple[int, str]]) -> set[str]:
    """Requests whose bodies, empty here, could not be read: refused as well."""
    return {kind.code.name for kind, (code, remark) in answers.items() if code == 1 and kind.request_body is not None}


def test_a_code_without_a_declaration_is_refused_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(place: Place) -> None:
        monkeypatch.delitem(cast("dict[Any, Any]", DECLARED), GetBrokerConfig)
        code, remark = await refusal(place.client(ROOT), GetBrokerConfig())
        assert (code, "declares nothing" in remark) == (NO_PERMISSION, True)

    served(main)


def test_the_broker_signs_its_own_requests() -> None:
    async def main(place: Place) -> None:
        await place.client(ROOT).send("T")
        reply = await place.client(ROOT, place.names).ask(GetRouteInfoByTopic(topic="T"))
        assert b"broker-a" in reply.body

    served(main)


def test_rules_say_which_topics_and_groups() -> None:
    async def main(place: Place) -> None:
        alice = await place.make(ALICE, ("Topic:orders*", "Pub", "Allow"), ("Topic:orders-old", "Pub", "Deny"))
        await alice.send("orders-new")
        source = place.address_of_clients
        words = f"User:alice has no permission to access Topic:{{}} from {source}, {{}}"
        assert await refusal(alice, a_send("bills"), b"x") == (16, words.format("bills", "no matched policies."))
        assert await refusal(alice, a_send("orders-old"), b"x") == (
            16,
            words.format("orders-old", "the decision is deny."),
        )
        code, remark = await refusal(alice, a_send("%RETRY%g"), b"x")
        assert (code, "Group:g " in remark) == (16, True)

    served(main)


def test_members_need_their_group_and_every_topic() -> None:
    def beat(*topics: str) -> bytes:
        consumer = ConsumerData(
            group_name="g", subscription_data_set=[SubscriptionData(topic=topic) for topic in topics]
        )
        data = HeartbeatData(
            client_id="c", consumer_data_set=[consumer], producer_data_set=[ProducerData(group_name="p")]
        )
        return encode_body(data)

    async def main(place: Place) -> None:
        alice = await place.make(ALICE, ("Group:g", "Sub", "Allow"), ("Topic:orders", "Sub", "Allow"))
        assert await refusal(alice, HeartBeat(), beat("orders", "%RETRY%g")) == (0, "")
        code, remark = await refusal(alice, HeartBeat(), beat("orders", "bills"))
        assert (code, "Topic:bills" in remark) == (16, True)
        code, remark = await refusal(alice, HeartBeat(), beat("orders", "%RETRY%other"))
        assert (code, "Group:other" in remark) == (16, True)
        assert (await refusal(alice, GetConsumerListByGroup(consumer_group="g")))[0] == 0
        assert (await refusal(alice, GetConsumerListByGroup(consumer_group="h")))[0] == 16
        assert (await refusal(alice, UnregisterClient(client_id="c", consumer_group="h")))[0] == 16

    served(main)


def test_a_change_is_in_force_at_once_on_open_connections() -> None:
    async def main(place: Place) -> None:
        alice = await place.make(ALICE, ("Topic:orders", "Pub", "Allow"))
        await alice.send("orders")
        root = place.client(ROOT)
        await place.allow("alice", "Topic:orders", "Pub", "Deny")
        assert (await refusal(alice, a_send("orders"), b"x"))[0] == 16
        await place.allow("alice", "Topic:orders", "Pub", "Allow", ["10.99.0.0/16"])
        assert (await refusal(alice, a_send("orders"), b"x"))[0] == 16
        await place.allow("alice", "Topic:orders", "Pub", "Allow", [place.address_of_clients])
        await alice.send("orders")
        await root.ask(AuthUpdateUser(username="alice"), encode_body(UserInfo(user_status="disable")))
        assert await refusal(alice, a_send("orders"), b"x") == (16, "User:alice is disabled.")
        await root.ask(AuthUpdateUser(username="alice"), encode_body(UserInfo(user_status="enable", password="new")))
        assert await refusal(alice, a_send("orders"), b"x") == (16, "check signature failed.")
        await place.client(("alice", "new")).send("orders")
        await root.ask(AuthDeleteUser(username="alice"))
        assert await refusal(place.client(("alice", "new")), a_send("orders"), b"x") == (16, "check signature failed.")

    served(main)


def test_users_and_rules_are_listed_without_secrets_and_survive_a_restart() -> None:
    async def main(place: Place) -> None:
        await place.make(ALICE, ("Topic:orders", "Pub,Sub", "Allow"))
        await place.server.node.stop()
        await place.server.start()
        root = place.client(ROOT)
        users = (await root.ask(AuthListUser())).body
        infos = msgspec.json.decode(users, type=list[UserInfo])
        assert [(info.username, info.password, info.user_type, info.user_status) for info in infos] == [
            ("alice", "******", "Normal", "enable"),
            ("inner", "******", "Super", "enable"),
            ("root", "******", "Super", "enable"),
        ]
        one = (await root.ask(AuthGetUser(username="alice"))).body
        rules = (await root.ask(AuthGetAcl(subject="User:alice"))).body
        entry = msgspec.json.decode(rules, type=AclInfo).policies[0].entries[0]  # type: ignore[index]
        assert (entry.resource, entry.actions, entry.source_ips, entry.decision) == (
            "Topic:orders",
            ["Pub", "Sub"],
            None,
            "Allow",
        )
        listed = (await root.ask(AuthListAcl(subject_filter="ali"))).body
        settings = (await root.ask(GetBrokerConfig())).body
        shown = users + one + rules + listed + settings
        assert not [secret for _, secret in (ROOT, INNER, ALICE) if secret.encode() in shown]
        assert b"authenticationEnabled=true" in settings
        await root.ask(AuthDeleteAcl(subject="User:alice", resource="Topic:orders"))
        assert (await root.ask(AuthListAcl())).body == b""

    served(main)


def test_only_super_users_make_super_users() -> None:
    async def main(place: Place) -> None:
        clerk = await place.make(("clerk", "c"), ("Cluster:DefaultCluster", "Update,Get", "Allow"))
        body = encode_body(UserInfo(password="x", user_type="Super"))
        assert "super user" in (await refusal(clerk, AuthCreateUser(username="mine"), body))[1]
        assert "super user" in (await refusal(clerk, AuthUpdateUser(username="clerk"), body))[1]
        assert (
            "super user"
            in (await refusal(clerk, AuthUpdateUser(username="root"), encode_body(UserInfo(password="x"))))[1]
        )
        assert "super user" in (await refusal(clerk, AuthDeleteUser(username="root")))[1]
        assert (await refusal(clerk, AuthCreateUser(username="mine"), encode_body(UserInfo(password="x"))))[0] == 0

    served(main)


def test_a_name_that_nobody_has_proved_is_not_super() -> None:
    async def main(place: Place) -> None:
        nobody = place.client(None)
        nobody.caller = Caller(nobody.caller._network, sign=lambda _request, _body: {ACCESS_KEY: ROOT[0]})
        body = encode_body(UserInfo(password="x", user_type="Super"))
        assert "super user" in (await refusal(nobody, AuthCreateUser(username="mine"), body))[1]
        assert (await refusal(nobody, AuthCreateUser(username="mine"), encode_body(UserInfo(password="x"))))[0] == 0

    served(main, replace(CONFIG, authentication_whitelist="3001", authorization_whitelist="3001"))


def test_whitelists() -> None:
    async def main(place: Place) -> None:
        nobody, bob = place.client(None), await place.make(("bob", "b"))
        assert (await refusal(nobody, a_send("T"), b"x"))[0] == 0
        assert (await refusal(bob, GetConsumerListByGroup(consumer_group="g")))[0] != 16
        assert (await refusal(nobody, GetConsumerListByGroup(consumer_group="g")))[0] == 16
        code = int(RequestCode.HEART_BEAT)
        unproved = await refusal(nobody, HeartBeat(), encode_body(HeartbeatData(client_id="c")))
        assert unproved == (16, "username cannot be null."), code

    unsigned, for_all = "310,34", "310,38"
    served(main, replace(CONFIG, authentication_whitelist=unsigned, authorization_whitelist=for_all))


def test_old_clients_add_a_field_behind_their_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(keys: tuple[str, str]) -> Any:
        sign = Signer(Credentials(*keys))

        def signed(request: Request[Any], body: bytes) -> dict[str, str]:
            assert isinstance(request, QueryMessage)
            return dict(sign(replace(request, unique_key_query=None), body))

        return signed

    asked = QueryMessage(topic="T", key="k", max_num=1, begin_timestamp=0, end_timestamp=1, unique_key_query=True)

    async def main(place: Place) -> None:
        client = place.client(None)
        client.caller = Caller(client.caller._network, sign=late(ROOT))
        assert (await refusal(client, asked))[1] == "check signature failed."
        monkeypatch.setattr(header_json, "OUR_VERSION", LAST_WITHOUT_UNIQUE_KEY)
        assert (await refusal(client, asked))[0] == 22

    served(main)


def test_a_signature_covers_the_body_and_every_field() -> None:
    def copied(place: Place, fields: dict[str, str]) -> Any:
        client = place.client(None)
        client.caller = Caller(client.caller._network, sign=lambda _request, _body: fields)
        return client

    async def main(place: Place) -> None:
        good = Signer(Credentials(*ROOT))(a_send("T"), b"hello")
        assert set(good) == {ACCESS_KEY, SIGNATURE}
        await copied(place, good).send("T", b"hello")
        assert (await refusal(copied(place, good), a_send("T"), b"hellp"))[0] == 16
        assert (await refusal(copied(place, good), a_send("U"), b"hello"))[0] == 16
        assert (await refusal(copied(place, {**good, SIGNATURE: "é"}), a_send("T"), b"hello"))[0] == 16
        assert (await refusal(copied(place, {ACCESS_KEY: ROOT[0]}), a_send("T"), b"hello"))[0] == 16

    served(main)


def test_access_without_a_user_does_not_start() -> None:
    async def main(_world: object, broker: Simulated, _client: object) -> None:
        broker.settings = replace(settings_of(), access=AccessConfig(authentication_enabled=True))
        await broker.node.stop()
        with pytest.raises(BaseExceptionGroup) as caught:
            await broker.run(broker.node)
        assert caught.group_contains(SettingsError, match="initAuthenticationUser")

    simulate(main)


@pytest.mark.parametrize(
    "strategy", ["", "org.apache.rocketmq.auth.authentication.strategy.StatefulAuthenticationStrategy"]
)
def test_a_user_who_has_signed_is_remembered_if_the_settings_want_that(strategy: str) -> None:
    async def main(place: Place) -> None:
        alice = await place.make(ALICE, ("Topic:orders", "Pub", "Allow"))
        signer, forged = Signer(Credentials(*ALICE)), False

        def sign(request: Request[Any], body: bytes | bytearray | memoryview) -> dict[str, str]:
            made = dict(signer(request, body))
            return made | {SIGNATURE: "forged"} if forged else made

        alice.caller = Caller(alice.caller._network, sign=sign)
        forged = True
        assert (await refusal(alice, a_send("orders"), b"x"))[0] == 16
        forged = False
        await alice.send("orders")
        forged = True
        assert (await refusal(alice, a_send("orders"), b"x"))[0] == (0 if strategy else 16)
        assert (await refusal(alice, a_send("bills"), b"x"))[0] == 16
        await place.make(("bob", "b"))
        assert (await refusal(alice, a_send("orders"), b"x"))[1] == "check signature failed."

    served(main, replace(CONFIG, authentication_strategy=strategy))


def test_offsets_of_all_topics_are_cloned_by_who_may_change_all_topics() -> None:
    async def main(place: Place) -> None:
        rules = [("Group:*", "All", "Allow"), ("Topic:T", "All", "Allow")]
        alice = await place.make(ALICE, *rules)
        request = CloneGroupOffset(src_group="a", dest_group="b", topic="T")
        assert (await refusal(alice, request))[0] != NO_PERMISSION
        everything = CloneGroupOffset(src_group="a", dest_group="b")
        assert (await refusal(alice, everything))[0] == NO_PERMISSION
        await place.allow(ALICE[0], "Topic:*", "Update")
        assert (await refusal(alice, everything))[0] != NO_PERMISSION

    served(main)


def test_a_stranger_is_not_told_which_users_there_are() -> None:
    async def main(place: Place) -> None:
        await place.make(ALICE)
        await place.make(("bob", "marker-of-bob"))
        disabled = encode_body(UserInfo(user_status="disable"))
        await place.client(ROOT).ask(AuthUpdateUser(username="bob"), disabled)
        answers = [await refusal(place.client((name, "wrong")), a_send("orders")) for name in ("alice", "bob", "carol")]
        assert answers == [(NO_PERMISSION, "check signature failed.")] * 3
        assert await refusal(place.client(("bob", "marker-of-bob")), a_send("orders")) == (16, "User:bob is disabled.")

    served(main)
