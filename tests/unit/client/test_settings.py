"""Every knob of Java's clients is there under a Python name with the same default, or the reference says why not."""

import importlib.util
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import msgspec
import pytest

from firearrow.client import Consumer, Producer
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings
from firearrow.client.producer.settings import ProducerOptions, ProducerSettings
from firearrow.errors import SettingsError

SCRIPT = Path(__file__).parents[3] / "docs/generate/client_settings.py"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("client_settings", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("settings", "table"), [(ProducerSettings, "PRODUCER"), (ConsumerSettings, "CONSUMER")])
def test_defaults_are_javas(reference: ModuleType, settings: type[msgspec.Struct], table: str) -> None:
    java: dict[str, Any] = getattr(reference, table)
    ours = {field.name: field.default for field in msgspec.structs.fields(settings)}
    assert set(ours) == set(java), "a setting without its line in the reference, or the reverse"
    for name, default in ours.items():
        said = default.value if isinstance(default, StrEnum) else getattr(default, "name", default)
        assert said == java[name][1], name


@pytest.mark.parametrize(
    ("settings", "options"), [(ProducerSettings, ProducerOptions), (ConsumerSettings, ConsumerOptions)]
)
def test_keyword_arguments_are_the_settings(settings: type[msgspec.Struct], options: type) -> None:
    fields = {field.name for field in msgspec.structs.fields(settings)}
    assert set(get_type_hints(options)) == fields - {"group"}


def test_limits_of_a_topic_are_shared_by_its_queues() -> None:
    settings = Consumer("a:1", group="g", pull_threshold_topic=1000, pull_threshold_topic_bytes=80).settings
    limits = settings.window_among(4)
    assert (limits.messages, limits.size_bytes) == (250, 20)
    assert settings.window_among(5000).messages == 1
    assert Consumer("a:1", group="g").settings.window_among(4) == Consumer("a:1", group="g").settings.window


@pytest.mark.parametrize("wrong", [{"retries": -1}, {"send_timeout_ms": 0}, {"client_ip": "here"}, {"secret_key": "x"}])
def test_what_cannot_be_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Producer("127.0.0.1:9876", **wrong)
