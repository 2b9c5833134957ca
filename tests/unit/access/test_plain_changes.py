"""4.9's requests about accounts (50 to 54): what they change, who may send them, and what they refuse."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from firearrow.access.accounts import MASK
from firearrow.access.plain.acl import PATH, read_plain_acl
from firearrow.access.settings import AccessConfig
from firearrow.fastjson import decode
from firearrow.protocol.bodies.admin.auth import ClusterAclConfig
from firearrow.protocol.requests.admin.auth import (
    DeleteAclConfig,
    GetBrokerClusterAclConfig,
    GetBrokerClusterAclInfo,
    UpdateAndCreateAclConfig,
    UpdateGlobalWhiteAddrsConfig,
)
from firearrow.testing.sim.world import World
from tests.unit.access.servers import Place, refusal
from tests.unit.broker.whole import Simulated, a_send, settings_of

ADMIN, SHOP = ("the-admin", "marker-admin"), ("the-shop", "marker-shop")
FILE = b"accounts:\n- {accessKey: the-admin, secretKey: marker-admin, admin: true}\n"
NEW = UpdateAndCreateAclConfig(access_key=SHOP[0], secret_key=SHOP[1], topic_perms="orders=PUB|SUB,bills=DENY")


def played(scenario: Any) -> None:
    """Run a scenario with a broker that has 4.9's accounts."""

    async def run(world: World) -> None:
        node = world.node("broker")
        node.disk.make_directory("config")
        await node.disk.replace(PATH, FILE)
        broker = Simulated(node, replace(settings_of(), access=AccessConfig(acl_enable=True)))
        await broker.start()
        await scenario(Place(world, broker, broker.address))
        await node.stop()

    World(1).run(run)


def test_accounts_are_made_changed_shown_and_deleted() -> None:
    async def main(place: Place) -> None:
        admin, shop, disk = place.client(ADMIN), place.client(SHOP), place.server.node.disk
        assert (await refusal(shop, a_send("orders"), b"x"))[0] == 16
        await admin.ask(NEW)
        await shop.send("orders")
        assert (await refusal(shop, a_send("bills"), b"x"))[0] == 16
        await admin.ask(replace(NEW, topic_perms=None, group_perms="g=SUB", default_topic_perm="PUB"))
        await shop.send("others")
        assert (await refusal(shop, a_send("bills"), b"x"))[0] == 16
        shown = (await admin.ask(GetBrokerClusterAclConfig())).body
        assert b"marker" not in shown
        accounts = decode(shown, ClusterAclConfig).plain_access_configs or []
        assert [(one.access_key, one.secret_key, one.admin, one.topic_perms) for one in accounts] == [
            ("the-admin", MASK, True, None),
            ("the-shop", MASK, False, ["orders=PUB|SUB", "bills=DENY"]),
        ]
        answer = (await admin.ask(GetBrokerClusterAclInfo())).answer
        assert answer is not None
        assert msgspec.json.decode(answer.version)["counter"] == 2
        assert list(msgspec.json.decode(answer.all_acl_file_version)) == [PATH]
        assert (answer.broker_name, answer.cluster_name) == ("broker-a", "DefaultCluster")
        assert str(place.server.address) == answer.broker_addr
        await admin.ask(DeleteAclConfig(access_key=SHOP[0]))
        assert (await refusal(shop, a_send("orders"), b"x"))[0] == 16
        acl = read_plain_acl(await disk.read_whole(PATH))
        assert [account.access_key for account in acl.accounts or ()] == ["the-admin"]
        assert acl.edition.number == 3

    played(main)


def test_a_change_keeps_what_somebody_has_written_into_the_file_meanwhile() -> None:
    async def main(place: Place) -> None:
        more = b"- {accessKey: by-hand, secretKey: marker-hand, defaultTopicPerm: PUB}\n"
        await asyncio.sleep(1)
        await place.server.node.disk.replace(PATH, FILE + more)
        await place.client(ADMIN).ask(NEW)
        await place.client(("by-hand", "marker-hand")).send("orders")
        await place.client(SHOP).send("orders")

    played(main)


def test_white_addresses() -> None:
    async def main(place: Place) -> None:
        admin, nobody = place.client(ADMIN), place.client(None)
        assert (await refusal(nobody, a_send("orders"), b"x"))[0] == 16
        await admin.ask(UpdateGlobalWhiteAddrsConfig(global_white_addrs="192.168.0.*,10.0.0.1-9"))
        await nobody.send("orders")
        await admin.ask(UpdateGlobalWhiteAddrsConfig(global_white_addrs=""))
        assert (await refusal(nobody, a_send("orders"), b"x"))[0] == 16

    played(main)


@pytest.mark.parametrize(
    ("request_", "code", "said"),
    [
        (replace(NEW, access_key="short"), 209, "length should longer than 6"),
        (replace(NEW, secret_key="short"), 209, "length should longer than 6"),
        (replace(NEW, secret_key=None), 209, "length should longer than 6"),
        (replace(NEW, secret_key=MASK), 209, "length should longer than 6"),
        (replace(NEW, topic_perms="orders=ALL"), 209, "'ALL' is not one of"),
        (replace(NEW, topic_perms="orders"), 209, "is not NAME=PERMISSION"),
        (replace(NEW, white_remote_address="everywhere!"), 209, "a white list has addresses"),
        (replace(NEW, access_key=ADMIN[0]), 209, "the last account with admin"),
        (DeleteAclConfig(access_key="nobody"), 210, "has been deleted failed"),
        (DeleteAclConfig(access_key=ADMIN[0]), 210, "the last account with admin"),
        (UpdateGlobalWhiteAddrsConfig(global_white_addrs="everywhere"), 211, "a white list has addresses"),
        (UpdateGlobalWhiteAddrsConfig(global_white_addrs="*", acl_file_full_path="/etc/passwd"), 211, "one file"),
    ],
)
def test_changes_that_are_refused(request_: Any, code: int, said: str) -> None:
    async def main(place: Place) -> None:
        found, remark = await refusal(place.client(ADMIN), request_)
        assert (found, said in remark, "marker" in remark) == (code, True, False), remark
        assert await place.server.node.disk.read_whole(PATH) == FILE

    played(main)


@pytest.mark.parametrize(
    "request_",
    [
        replace(NEW, admin=True),
        DeleteAclConfig(access_key=ADMIN[0]),
        UpdateGlobalWhiteAddrsConfig(global_white_addrs="*"),
        GetBrokerClusterAclInfo(),
        GetBrokerClusterAclConfig(),
    ],
)
def test_an_account_without_admin_may_not(request_: Any) -> None:
    async def main(place: Place) -> None:
        await place.client(ADMIN).ask(replace(NEW, default_topic_perm="PUB|SUB", default_group_perm="SUB"))
        for client in (place.client(SHOP), place.client(None)):
            assert (await refusal(client, request_))[0] == 16

    played(main)
