"""The accounts of 4.9: what the file says, white lists, a change of the file, and the way to users of 5.x."""

import asyncio

import pytest
from msgspec.structs import replace

from firearrow.access.access import AccessControl, access_of
from firearrow.access.accounts import Accounts
from firearrow.access.plain.access import LOOK_S, PlainAccess
from firearrow.access.plain.acl import PATH, PlainAcl, add_accounts, matches_address, read_plain_acl
from firearrow.access.rules import UserType
from firearrow.access.settings import AccessConfig, check_access
from firearrow.errors import SettingsError
from firearrow.protocol.requests.admin.config import GetBrokerConfig
from firearrow.runtime.clock import SystemClock
from firearrow.testing.sim.world import World
from tests.simulation.store.kit import fresh_image
from tests.unit.access.servers import CONFIG, ROOT, Place, refusal
from tests.unit.broker.whole import Simulated, a_send, settings_of
from tests.unit.store.sidecars.test_copies import RefusingDisk

SAMPLE = b"""
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB

- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  # if it is admin, it could access all resources
  admin: true
"""
ON = AccessConfig(acl_enable=True)


def test_the_sample_of_apache() -> None:
    accounts = add_accounts(Accounts(), read_plain_acl(SAMPLE))
    assert {name: user.kind for name, user in accounts.users.items()} == {
        "RocketMQ": UserType.NORMAL,
        "rocketmq2": UserType.SUPER,
    }
    rules = accounts.rules["RocketMQ"]
    assert list(map(str, rules.custom)) == [
        "Deny All on Topic:topicA",
        "Allow Pub,Sub on Topic:topicB",
        "Allow Sub on Topic:topicC",
        "Deny All on Group:groupA",
        "Allow Pub,Sub on Group:groupB",
    ]
    assert list(map(str, rules.default)) == ["Deny All on Topic:*", "Allow Sub on Group:*"]
    assert "12345678" not in repr(read_plain_acl(SAMPLE))


@pytest.mark.parametrize(
    ("pattern", "address", "expected"),
    [
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("10.0.0.*", "10.0.0.8", True),
        ("10.0.0.*", "10.0.1.8", False),
        ("10.0.1-5.*", "10.0.5.8", True),
        ("10.0.1-5.*", "10.0.6.8", False),
        ("10.0.0.{1,2}", "10.0.0.2", True),
        ("10.0.0.{1,2}", "10.0.0.3", False),
        ("10.0.0.1, 10.0.0.2", "10.0.0.2", True),
        ("10.0.0.{1,2},10.9.9.9", "10.9.9.9", True),
        ("*", "10.0.0.8", True),
        ("*.*.*.*", "10.0.0.8", True),
        ("", "10.0.0.8", False),
        ("fe80:0:0:0:0:0:0:*", "fe80:0:0:0:0:0:0:1", True),
        ("10.0.0", "10.0.0.8", False),
    ],
)
def test_white_lists(pattern: str, address: str, expected: bool) -> None:
    assert matches_address(pattern, address) is expected


def test_who_is_white() -> None:
    acl = read_plain_acl(SAMPLE)
    assert acl.is_white("10.10.103.9", None)
    assert acl.is_white("192.168.1.9", "rocketmq2")
    assert not acl.is_white("192.168.1.9", "RocketMQ")
    assert not acl.is_white("192.168.1.9", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"accounts: [", "is not YAML in line 1"),
        (b"accounts: 7", "look at"),
        (b"accounts:\n- accessKey: a\n", "look at"),
        (b"- just\n- a list\n", "look at"),
        (b"accounts:\n- {accessKey: a, secretKey: marker, topicPerms: [t]}\n", "is not NAME=PERMISSION"),
        (b"accounts:\n- {accessKey: a, secretKey: marker, topicPerms: [t=ALL]}\n", "'ALL' is not one of"),
        (b"\xff\xfe\x00", "is not YAML"),
        (b"a: &a [marker]\nb: [*a, *a]\n", "has an alias"),
        (b"a: &a [*a]\n", "has an alias"),
        (b'accounts:\n- {accessKey: a, secretKey: "marker\\ud800"}\n', "no client can sign with"),
        (b"#" * (1 << 20) + b"#", "more than"),
    ],
)
def test_files_that_are_refused(text: bytes, said: str) -> None:
    with pytest.raises(SettingsError, match="plain_acl") as caught:
        add_accounts(Accounts(), read_plain_acl(text))
    assert said in str(caught.value)
    assert "marker" not in str(caught.value)
    assert read_plain_acl(b"") == PlainAcl()


def test_the_old_way_and_the_new_one_do_not_mix() -> None:
    with pytest.raises(SettingsError, match="plain_acl"):
        check_access(replace(ON, authentication_enabled=True))
    disk = RefusingDisk(fresh_image())
    assert isinstance(access_of(ON, disk, "C", SystemClock()), PlainAccess)
    assert isinstance(access_of(CONFIG, disk, "C", SystemClock()), AccessControl)


def test_migration_keeps_the_users_that_are_there() -> None:
    async def main() -> None:
        disk = RefusingDisk(fresh_image())
        disk.make_directory("config")
        await disk.replace(PATH, SAMPLE + b"- accessKey: root\n  secretKey: other\n")
        access = AccessControl(replace(CONFIG, migrate_auth_from_v1_enabled=True), disk, "C", SystemClock())
        await access.open()
        again = AccessControl(CONFIG, disk, "C", SystemClock())
        await again.open()
        users = again.accounts.value.users
        assert set(users) == {"root", "inner", "RocketMQ", "rocketmq2"}
        assert len(again.accounts.value.rules["RocketMQ"].custom) == 5

    asyncio.run(main())


def test_a_broker_asks_the_file_and_reads_it_again() -> None:
    def file(permission: str) -> bytes:
        root = f"- {{accessKey: {ROOT[0]}, secretKey: {ROOT[1]}, admin: true}}"
        shop = f"- {{accessKey: shop, secretKey: shop-secret, topicPerms: ['T={permission}']}}"
        return f"accounts:\n{root}\n{shop}\n".encode()

    async def run(world: World) -> None:
        node = world.node("broker")
        node.disk.make_directory("config")
        await node.disk.replace(PATH, file("PUB"))
        broker = Simulated(node, replace(settings_of(), access=ON))
        await broker.start()
        place = Place(world, broker, broker.address)
        shop, root, nobody = place.client(("shop", "shop-secret")), place.client(ROOT), place.client(None)
        assert (await refusal(shop, a_send("T"), b"x"))[0] == 0
        assert (await refusal(shop, a_send("U"), b"x"))[0] == 16
        assert (await refusal(shop, GetBrokerConfig()))[0] == 16
        assert (await refusal(root, GetBrokerConfig()))[0] == 0
        assert (await refusal(nobody, a_send("T"), b"x"))[0] == 16
        for changed, expected in ((file("SUB"), 16), (b"accounts: [", 16), (file("PUB|SUB"), 0)):
            await node.disk.replace(PATH, changed)
            await asyncio.sleep(3 * LOOK_S)
            assert (await refusal(shop, a_send("T"), b"x"))[0] == expected
        await node.disk.replace(PATH, file("SUB") + b"globalWhiteRemoteAddresses: ['*']\n")
        await asyncio.sleep(3 * LOOK_S)
        assert (await refusal(nobody, a_send("T"), b"x"))[0] == 0
        await node.stop()

    World(1).run(run)
