import pytest

from firearrow.errors import SettingsError
from firearrow.model import Host, Message, MessageQueue, flags, keys
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, delay_of_level, parse_delay_levels
from firearrow.model.versions import CURRENT_VERSION, VERSION_NAMES, LanguageCode, version_name, version_number


@pytest.mark.parametrize(
    ("release", "number"),
    [("3.0.11", 37), ("3.4.9", 121), ("4.0.0", 213), ("4.1.0", 233), ("4.5.2", 317), ("4.6.0", 333), ("4.9.4", 401),
     ("4.9.8", 409), ("5.0.0", 413), ("5.3.3", 479), ("5.5.0", 513)],
)  # fmt: skip
def test_version_numbers(release: str, number: int) -> None:
    assert version_number(release) == number
    assert version_name(number) == "V" + release.replace(".", "_")


def test_version_table() -> None:
    assert VERSION_NAMES[0] == "V3_0_0_SNAPSHOT"
    assert VERSION_NAMES[62] == "V3_1_8_SNAPSHOT"
    assert VERSION_NAMES[232] == "V4_1_0_SNAPSHOT"
    assert VERSION_NAMES[612] == "HIGHER_VERSION"
    assert version_name(2**31) == version_name(-1) == "HIGHER_VERSION"
    assert CURRENT_VERSION == 513


def test_release_formula() -> None:
    for major, minor, patch in [(4, 0, 0), (4, 9, 9), (5, 0, 0), (5, 9, 9)]:
        assert version_number(f"{major}.{minor}.{patch}") == 213 + 200 * (major - 4) + 20 * minor + 2 * patch


def test_language_codes() -> None:
    assert LanguageCode["PYTHON"] == 3
    assert LanguageCode(13).name == "NODE_JS"


def test_delay_levels() -> None:
    levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    assert len(levels) == 18
    assert levels[0] == 1_000
    assert levels[17] == 7_200_000
    assert delay_of_level(levels, 0) == delay_of_level(levels, -1) == 0
    assert delay_of_level(levels, 3) == 10_000
    assert delay_of_level(levels, 19) == delay_of_level(levels, 10**9) == 7_200_000
    assert parse_delay_levels("1d") == (86_400_000,)


@pytest.mark.parametrize("text", ["", "1", "s", "1w", "-1s", "1.5s", "1s x", "\u0661s"])
def test_bad_delay_levels(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_delay_levels(text)


def test_transaction_bits() -> None:
    assert [flags.enters_queue(bits) for bits in (0, flags.PREPARED, flags.COMMIT, flags.ROLLBACK)] == [
        True,
        False,
        True,
        False,
    ]
    assert flags.is_wrapped_batch(0xC0)
    assert not flags.is_wrapped_batch(0x80)


def test_permissions() -> None:
    assert [flags.perm_text(perm) for perm in (0, 2, 4, 6, 7)] == ["---", "-W-", "R--", "RW-", "RWX"]
    assert flags.is_legal_perm(7)
    assert not flags.is_legal_perm(8)
    assert not flags.is_legal_perm(-1)
    assert flags.topic_sys_flag(unit=True, unit_sub=True) == 3


def test_message_parts_become_properties() -> None:
    message = Message.of("T", b"x", tag="A", keys=["k1", "k2"], delay_level=3, sharding_key="s", properties={"u": "1"})
    assert message.properties == {"TAGS": "A", "KEYS": "k1 k2", "DELAY": "3", "__SHARDINGKEY": "s", "u": "1"}
    assert (message.tag, message.keys) == ("A", ["k1", "k2"])
    assert Message.of("T", b"").properties == {}
    assert Message.of("T", b"").keys == []


def test_with_properties_leaves_the_first_message_alone() -> None:
    first = Message("T", b"x", {"a": "1"})
    assert first.with_properties({"b": "2"}).properties == {"a": "1", "b": "2"}
    assert first.properties == {"a": "1"}


def test_queues_sort_as_clients_divide_them() -> None:
    queues = [
        MessageQueue("T", "b", 1),
        MessageQueue("T", "a", 10),
        MessageQueue("T", "a", 2),
        MessageQueue("S", "z", 0),
    ]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]
    assert len({MessageQueue("T", "a", 0), MessageQueue("T", "a", 0)}) == 1


def test_address_text() -> None:
    assert str(Host("127.0.0.1", 10911)) == "127.0.0.1:10911"
    assert str(Host("::1", 10911)) == "[::1]:10911"


def test_reserved_keys() -> None:
    assert keys.TRAN_MSG in keys.RESERVED
    assert keys.SHARDING_KEY not in keys.RESERVED
    assert len(keys.RESERVED) == 54
