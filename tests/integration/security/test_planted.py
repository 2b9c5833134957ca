"""Every replay sees the fault that it is about: a server with that fault fails it, with the words that are expected."""

from collections.abc import Callable
from typing import Any

import pytest

from firearrow.record.decode import decode
from tests.integration.security import (
    plants,
    test_audit_flood,
    test_bombs,
    test_choke_point,
    test_config_commands,
    test_config_files,
    test_lengths,
    test_names,
    test_rule_stars,
    test_secret_reading,
    test_stranger_cpu,
    test_stranger_http,
    test_stranger_memory,
    test_user_names,
)
from tests.integration.security.victim import USERS_ON, Victim

pytestmark = pytest.mark.real

CLOSE_SECONDS = 3.0
A_FEW_NAMES = ("../../x", "%DLQ%..")
"""A fault shows at once, in these."""

Plant = Callable[[], None]
Replay = Callable[[Victim], None]

COMMANDS, FILES, NAMES = test_config_commands.replay, test_config_files.replay, test_names.replay
SECRETS, LENGTHS, CHOKE = test_secret_reading.replay, test_lengths.replay, test_choke_point.replay
PLANTED: list[tuple[Plant, Replay, str, dict[str, str], str]] = [
    (plants.starts_filter_servers, COMMANDS, "broker", {}, "has started|a command ran"),
    (plants.every_key_may_change, COMMANDS, "broker", {}, "was not refused"),
    (plants.name_server_goes_on_after_a_refusal, FILES, "nameserver", {}, "refused, and yet changed"),
    (plants.broker_goes_on_after_a_refusal, FILES, "broker", {}, "refused, and yet changed"),
    (plants.writes_where_it_is_told, FILES, "nameserver", {}, "where the attacker wanted it"),
    (plants.shows_passwords, SECRETS, "broker", USERS_ON, "AuthGetUser shows"),
    (plants.shows_all_settings, SECRETS, "broker", USERS_ON, "GetBrokerConfig shows"),
    (plants.takes_any_name, NAMES, "broker", {}, "not refused|directories of queues"),
    (plants.takes_any_path, NAMES, "broker", {}, "paths outside the store"),
    (plants.allocates_what_is_announced, LENGTHS, "broker", USERS_ON, "half frames of 4 KiB each took"),
    (plants.believes_any_length, LENGTHS, "nameserver", USERS_ON, "did not end the connection"),
    (plants.inflates_without_limit, test_bombs.replay, "broker", {}, "a filter took"),
    (
        plants.inflates_registrations_without_limit,
        test_bombs.replay_at_name_server,
        "nameserver",
        {},
        "a registration took",
    ),
    (plants.a_code_forgot_the_check, CHOKE, "broker", USERS_ON, "answered to a stranger"),
    (plants.a_code_needs_nothing, CHOKE, "broker", USERS_ON, "answered to somebody without a rule"),
    (plants.asks_about_the_first_alone, CHOKE, "broker", USERS_ON, "what it holds passes"),
    (plants.remembers_names_of_fields, test_stranger_memory.replay, "broker", USERS_ON, "of a stranger took"),
    (plants.reads_the_dialect_slowly, test_stranger_cpu.replay, "broker", USERS_ON, "fastjson's dialect: "),
    (plants.reads_any_number_of_fields, test_stranger_cpu.replay, "nameserver", USERS_ON, "24,000 compact fields: "),
    (
        plants.keeps_what_visitors_send,
        test_stranger_http.replay,
        "broker",
        test_stranger_http.METRICS_ON,
        "of pipelined requests took",
    ),
    (plants.takes_stars_as_apache_does, test_rule_stars.replay, "broker", USERS_ON, "was taken"),
    (
        plants.refusals_share_the_files_of_changes,
        test_audit_flood.replay,
        "broker",
        test_audit_flood.SETTINGS,
        "refusals have pushed out",
    ),
    (plants.tells_unknown_users_apart, test_user_names.replay, "broker", USERS_ON, "which users there are"),
    (plants.believes_the_named_topic, CHOKE, "broker", USERS_ON, "reaches a message of others"),
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a fault need not be asked everything, nor waited for as long."""
    monkeypatch.setattr(test_lengths, "CLOSE_SECONDS", CLOSE_SECONDS)
    monkeypatch.setattr(test_names, "NAMES", A_FEW_NAMES)


@pytest.mark.parametrize(
    ("plant", "replay", "role", "settings", "seen"), PLANTED, ids=[plant.__name__ for plant, *_ in PLANTED]
)
def test_a_planted_fault_is_seen(plant: Plant, replay: Replay, role: str, settings: dict[str, str], seen: str) -> None:
    with Victim(role, settings, plant.__name__) as server, pytest.raises(AssertionError, match=seen):
        replay(server)


def test_secret_keys_that_are_shown_are_seen() -> None:
    broker = test_secret_reading.plain_broker(plants.shows_secret_keys.__name__)
    with broker, pytest.raises(AssertionError, match="GetBrokerClusterAclConfig shows"):
        test_secret_reading.replay(broker)


def test_restored_names_that_are_used_are_seen() -> None:
    broker = Victim("broker", plant=plants.restores_any_name.__name__)
    test_names.restored(broker)
    with broker, pytest.raises(AssertionError, match="directories of queues"):
        test_names.replay(broker)


def test_a_client_that_inflates_without_limit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with Victim("broker") as broker:
        test_bombs.replay(broker)
        records = [broker.ask(test_bombs.pull(offset)).body for offset in range(len(test_bombs.BOMBS))]
    put_back(plants.inflates_without_limit, monkeypatch)
    assert "inflates past" in decode(records[0], keep_bad_bodies=True).body_fault
    with pytest.raises(AssertionError, match="a client took"):
        test_bombs.replay_in_client(records)


def put_back(plant: Plant, patch: pytest.MonkeyPatch) -> None:
    """Put a fault of the codecs into this process until the test ends."""
    from firearrow.record import compression

    names = ("_decompress_zlib", "_decompress_lz4", "_decompress_zstd")
    kept: dict[str, Any] = {name: getattr(compression, name) for name in names}
    for name, function in kept.items():
        patch.setattr(compression, name, function)
    plant()
