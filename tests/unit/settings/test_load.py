"""Layers of settings, two names for each, and what the user hears."""

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from firearrow.errors import SettingsError
from firearrow.settings import Source, load, reference_table


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    idle_seconds: Annotated[int, Meta(ge=1, le=600, description="Close a silent connection after this long.")] = 120


class Outer(msgspec.Struct, frozen=True, rename="camel"):
    listen_port: Annotated[int, Meta(ge=0, le=65535, description="Port.")] = 9876
    order_message_enable: bool = False
    kv_config_path: str = ""
    limits: Inner = msgspec.field(default_factory=Inner)


def test_defaults_stand_when_nobody_speaks() -> None:
    assert load(Outer, []).value == Outer()


def test_later_sources_win_and_both_names_are_known() -> None:
    loaded = load(
        Outer,
        [
            Source.from_text("n.conf", "listenPort=1\norderMessageEnable=true\nidleSeconds=7"),
            Source.from_environment({"FIREARROW_LISTEN_PORT": "2", "PATH": "x", "FIREARROW_OTHER": "y"}),
            Source.from_flags({"listen_port": 3, "kv_config_path": None}),
        ],
    )
    assert loaded.value == Outer(listen_port=3, order_message_enable=True, limits=Inner(idle_seconds=7))
    assert loaded.warnings == ()


def test_toml_tables_follow_the_structs() -> None:
    text = "listen_port = 5\n[limits]\nidle_seconds = 9\n"
    assert load(Outer, [Source.from_text("n.toml", text)]).value == Outer(listen_port=5, limits=Inner(idle_seconds=9))


def test_an_unknown_key_gets_a_suggestion() -> None:
    (warning,) = load(Outer, [Source.from_text("n.conf", "listenPorts=1")]).warnings
    assert "listenPorts in n.conf is not a setting" in warning
    assert "did you mean listenPort?" in warning


def test_a_key_without_effect_says_why() -> None:
    (warning,) = load(
        Outer, [Source("n.conf", {"rocketmqHome": "x"})], ignored={"rocketmqHome": "no such home"}
    ).warnings
    assert warning == "rocketmqHome in n.conf has no effect: no such home"


@pytest.mark.parametrize("text", ["listenPort=70000", "listenPort=x", "idleSeconds=0"])
def test_values_out_of_bounds_are_refused_with_place_and_bounds(text: str) -> None:
    with pytest.raises(SettingsError, match=r"in n\.conf is not usable.*allowed"):
        load(Outer, [Source.from_text("n.conf", text)])


def test_bad_toml_names_the_file() -> None:
    with pytest.raises(SettingsError, match=r"n\.toml is not valid TOML"):
        Source.from_text("n.toml", "a = ")


def test_the_reference_has_a_row_for_every_leaf() -> None:
    table = reference_table(Outer)
    assert "| `listen_port` | `listenPort` | `9876` | >= 0, <= 65535 | Port. |" in table
    assert table.count("\n") == 6
