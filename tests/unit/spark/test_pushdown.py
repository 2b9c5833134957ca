"""Conditions leave out what they exclude, and never more."""

from dataclasses import dataclass
from datetime import UTC, datetime

from firearrow.model import MessageQueue
from firearrow.spark.source.plan import Span
from firearrow.spark.source.pushdown import NarrowedRows, narrowed, narrowing_of


@dataclass
class EqualTo:
    attribute: tuple[str, ...]
    value: object


class In(EqualTo):
    pass


class GreaterThan(EqualTo):
    pass


class GreaterThanOrEqual(EqualTo):
    pass


class LessThan(EqualTo):
    pass


class LessThanOrEqual(EqualTo):
    pass


class IsNotNull(EqualTo):
    pass


A0, A1, B0 = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1), MessageQueue("b", "y", 0)


def test_names_and_numbers() -> None:
    found = narrowing_of([EqualTo(("topic",), "a"), In(("topic",), ["a", "b"]), In(("queue_id",), [0, 1, None])])
    assert found == NarrowedRows(topics=frozenset("a"), queue_ids=frozenset({0, 1}))
    assert narrowed([Span(A0, 0, 5), Span(B0, 0, 5)], found) == [Span(A0, 0, 5)]
    assert narrowed([Span(A0, 0, 5), Span(A1, 0, 5)], NarrowedRows(queue_ids=frozenset({1}))) == [Span(A1, 0, 5)]
    assert narrowed([Span(A0, 0, 5)], NarrowedRows(brokers=frozenset("y"))) == []


def test_offsets() -> None:
    found = narrowing_of([GreaterThan(("queue_offset",), 4), LessThanOrEqual(("queue_offset",), 9)])
    assert narrowed([Span(A0, 0, 100), Span(A1, 0, 3)], found) == [Span(A0, 5, 10)]
    found = narrowing_of([GreaterThanOrEqual(("queue_offset",), 4), LessThan(("queue_offset",), 9)])
    assert narrowed([Span(A0, 0, 100)], found) == [Span(A0, 4, 9)]
    assert narrowed([Span(A0, 0, 100)], narrowing_of([EqualTo(("queue_offset",), 7)])) == [Span(A0, 7, 8)]


def test_times_to_the_millisecond() -> None:
    moment = datetime(1970, 1, 1, 0, 0, 1, 500_700, tzinfo=UTC)
    found = narrowing_of([GreaterThan(("store_timestamp",), moment)])
    assert (found.from_ms, found.before_ms) == (1501, None)
    found = narrowing_of([GreaterThanOrEqual(("store_timestamp",), moment), LessThan(("store_timestamp",), moment)])
    assert (found.from_ms, found.before_ms) == (1500, 1501)


def test_tags_as_brokers_read_them() -> None:
    assert narrowing_of([In(("tags",), ["B", "A"])]).tag_expression == "A || B"
    assert narrowing_of([EqualTo(("tags",), "A|B")]).tag_expression == ""
    assert narrowing_of([EqualTo(("keys",), "k1")]).keys == frozenset({"k1"})


def test_what_is_not_understood_leaves_everything() -> None:
    assert narrowing_of([IsNotNull(("topic",), None), EqualTo(("body",), b"x"), object()]) == NarrowedRows()
