"""Brokers are asked whether they can filter by an expression, and what they say is told."""

import asyncio
from typing import Any, cast

import pytest

from firearrow.client.consumer.filter_check import CarriedFilters, check_filters
from firearrow.client.consumer.subscription import Subscription, cel, sql, subscription
from firearrow.errors import ConnectionLost, FireArrowError, NoRoute, RequestRefused, SettingsError, Unsupported
from firearrow.fastjson import decode
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody


class Brokers:
    """Two brokers of one topic, in place of an instance with connections."""

    id = "client"

    def __init__(self, said: FireArrowError | None = None, *, has_route: bool = True) -> None:
        self.caller = self.routes = self
        self.asked: list[tuple[str, CheckClientBody]] = []
        self._said = said
        self._has_route = has_route

    @property
    def read_queues(self) -> list[MessageQueue]:
        return [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(4)]

    async def route(self, topic: str) -> "Brokers":
        if not self._has_route:
            raise NoRoute(f"no name server knows {topic}")
        return self

    def readable(self, broker: str, _preferred: int) -> tuple[int, str]:
        return 0, broker

    async def call(self, address: str, _request: object, body: bytes, **_options: Any) -> None:
        self.asked.append((address, decode(body, CheckClientBody)))
        if self._said is not None:
            raise self._said


def check(brokers: Brokers, *wanted: Subscription) -> None:
    instance: Any = brokers
    asyncio.run(check_filters(instance, "g", wanted))


FILTERED = subscription("T", sql("a > 1"), version=1)


def test_every_broker_of_the_topic_is_asked_once() -> None:
    brokers = Brokers()
    check(brokers, FILTERED)
    assert [address for address, _ in brokers.asked] == ["a", "b"]
    data = brokers.asked[0][1].subscription_data
    assert data is not None
    assert (data.sub_string, data.expression_type) == ("a > 1", "SQL92")


def test_tags_are_not_asked_about() -> None:
    brokers = Brokers()
    check(brokers, subscription("T", "A || B", version=1))
    assert brokers.asked == []


def test_a_broker_without_filters_is_told_with_what_to_do() -> None:
    refusal = RequestRefused(1, "The broker does not support consumer to filter message by SQL92")
    with pytest.raises(Unsupported, match=r"broker a .* enablePropertyFilter=true"):
        check(Brokers(refusal), FILTERED)


def test_an_expression_that_a_broker_does_not_take_is_told() -> None:
    with pytest.raises(SettingsError, match="'a > 1' of topic T: too long"):
        check(Brokers(RequestRefused(23, "too long")), FILTERED)


@pytest.mark.parametrize("brokers", [Brokers(ConnectionLost("gone")), Brokers(has_route=False)])
def test_brokers_that_cannot_be_asked_are_left_to_the_first_pull(brokers: Brokers) -> None:
    check(brokers, FILTERED)


BY_BODY = subscription("T", cel("body.a > 1"), version=1)
OF_APACHE = [
    RequestRefused(1, "The broker does not support consumer to filter message by CEL"),
    RequestRefused(23, 'Cannot invoke "FilterSpi.compile(String)" because the return value is null'),
]


@pytest.mark.parametrize("refusal", OF_APACHE)
def test_apaches_brokers_are_named_for_cel(refusal: RequestRefused) -> None:
    with pytest.raises(Unsupported, match=r"broker a .* by CEL, which FireArrow's brokers do and Apache's do not"):
        check(Brokers(refusal), BY_BODY)


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (RequestRefused(23, "the CEL expression does not compile: too long"), "does not take the CEL filter"),
        (RequestRefused(1, "... by CEL: enablePropertyFilter is false"), "set enablePropertyFilter=true"),
    ],
)
def test_our_brokers_say_themselves_why_they_refuse_cel(refusal: RequestRefused, said: str) -> None:
    with pytest.raises((SettingsError, Unsupported), match=said):
        check(Brokers(refusal), BY_BODY)


def carry(brokers: Brokers, *wanted: Subscription) -> None:
    async def story() -> None:
        carried, instance = CarriedFilters(), cast("Any", brokers)
        for each in wanted:
            await carried.check(instance, "g", each, "a")

    asyncio.run(story())


def test_a_broker_is_asked_once_for_every_cel_filter_that_pulls_carry() -> None:
    brokers = Brokers()
    carry(brokers, BY_BODY, FILTERED, BY_BODY, subscription("T", cel("true"), version=1))
    assert [address for address, _ in brokers.asked] == ["a", "a"]


@pytest.mark.parametrize("said", [*OF_APACHE, ConnectionLost("gone")])
def test_a_pull_carries_no_cel_filter_to_a_broker_that_has_not_said_yes(said: FireArrowError) -> None:
    with pytest.raises((Unsupported, ConnectionLost)):
        carry(Brokers(said), BY_BODY)
