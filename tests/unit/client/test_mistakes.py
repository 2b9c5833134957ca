"""Mistakes that people make are refused where they are made, with what was expected."""

import asyncio
import subprocess
import sys
from typing import Any

import msgspec
import pytest

import firearrow
from firearrow import blocking
from firearrow.client import Consumer, Producer, PullConsumer
from firearrow.client.consumer.queue.handler_call import as_coroutine
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.producer.settings import ProducerSettings
from firearrow.errors import SettingsError
from firearrow.runtime.threads import Threads


def no_threads() -> Threads:
    raise AssertionError("no thread is needed")


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        ({"orders": ["a"]}, "expression for 'orders'"),
        (7, "topics=7"),
        ([7], "7 is not a topic"),
        ([["a"]], "is not a topic"),
        ({"a": None}, "None"),
    ],
)
@pytest.mark.parametrize("kind", [Consumer, PullConsumer])
def test_topics_are_checked(kind: Any, topics: Any, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        kind("127.0.0.1:9876", group="g", topics=topics)


@pytest.mark.parametrize("kind", [Consumer, PullConsumer])
def test_topics_may_come_from_anything_that_yields_them(kind: Any) -> None:
    consumer = kind("127.0.0.1:9876", group="g", topics=(topic for topic in ("a", "b")))
    assert consumer._member._topics == {"a": "*", "b": "*"}


@pytest.mark.parametrize("wrong", [{"strategy": 5}, {"accept": 5}])
@pytest.mark.parametrize("kind", [Consumer, PullConsumer])
def test_what_is_no_function_is_refused(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"5.*function"):
        kind("127.0.0.1:9876", group="g", topics="orders", **wrong)


@pytest.mark.parametrize("kind", [Consumer, PullConsumer, Producer])
def test_tls_that_is_true_is_told_how_to_write_it(kind: Any) -> None:
    with pytest.raises(SettingsError, match=r"tls=True is not usable: write tls=ClientTls\(enabled=True\)"):
        kind("127.0.0.1:9876", group="g", tls=True)


def test_a_mistyped_option_is_told_with_the_one_that_was_meant() -> None:
    wrong: dict[str, Any] = {"send_timeout": 5}
    with pytest.raises(SettingsError, match=r"send_timeout is not an option.*send_timeout_ms"):
        Producer("127.0.0.1:9876", **wrong)
    wrong = {"orderd": True}
    with pytest.raises(SettingsError, match=r"orderd is not an option.*ordered"):
        Consumer("127.0.0.1:9876", group="g", **wrong)


def without_argument() -> None:
    """No handler."""


async def with_two(_one: object, _two: object) -> None:
    """No handler either."""


@pytest.mark.parametrize("handler", [None, 7, without_argument, with_two])
def test_a_handler_takes_one_argument(handler: Any) -> None:
    with pytest.raises(SettingsError, match="handler"):
        as_coroutine(handler, no_threads)


async def awaited(given: bytes) -> bytes:
    """A coroutine that is asked for here is not awaited."""
    return given


class AwaitedObject:
    """The same as an object."""

    async def __call__(self, given: bytes) -> bytes:
        return given


@pytest.mark.parametrize("given", [awaited, AwaitedObject()])
def test_functions_that_are_not_awaited_are_no_coroutine_functions(given: Any) -> None:
    for kind in (Consumer, PullConsumer, blocking.Consumer, blocking.PullConsumer):
        with pytest.raises(SettingsError, match=r"deserializer=.*it is not awaited"):
            kind("127.0.0.1:9876", group="g", deserializer=given)
    for producer in (Producer, blocking.Producer):
        with pytest.raises(SettingsError, match=r"serializer=.*it is not awaited"):
            producer("127.0.0.1:9876", serializer=given)


def test_the_top_lists_its_names_and_its_version() -> None:
    assert set(firearrow.__all__) <= set(dir(firearrow))
    assert firearrow.__version__
    for name in firearrow.__all__:
        assert getattr(firearrow, name) is not None


@pytest.mark.parametrize(
    ("kind", "settings"), [(Producer, ProducerSettings), (Consumer, ConsumerSettings), (PullConsumer, ConsumerSettings)]
)
def test_help_lists_every_option_with_its_default(kind: type, settings: type[msgspec.Struct]) -> None:
    for each in (kind, getattr(blocking, kind.__name__)):
        said = each.__doc__ or ""
        for field in msgspec.structs.fields(settings):
            assert field.name == "group" or f"    {field.name} = " in said
    assert "send_timeout_ms = 3000: Timeout of a send" in (Producer.__doc__ or "")


def test_the_blocking_client_warns_inside_a_running_loop() -> None:
    async def opened() -> None:
        with blocking.Producer("127.0.0.1:1"):
            pass

    with pytest.warns(RuntimeWarning, match="running event loop"):
        asyncio.run(opened())


def test_the_package_runs_as_a_module() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "firearrow", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "RocketMQ" in said.stdout
