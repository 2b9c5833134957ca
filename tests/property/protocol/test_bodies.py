"""Every body survives the trip in both forms, and says what Java's class says."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firearrow import fastjson
from firearrow.errors import BadBody
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.admin.store import TimerCheckpoint
from firearrow.protocol.bodies.body import Body, encode_body
from firearrow.protocol.bodies.group.offset import (
    QueueOffsetForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    read_reset_offsets,
)
from firearrow.protocol.bodies.naming.registration import RegisterBrokerBody, decode_registration, encode_registration
from tests.property.protocol.body_values import body_structs, json_bodies, members_in_order, values_of

few = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
some = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@pytest.mark.parametrize("kind", json_bodies(), ids=str)
@few
@given(data=st.data())
def test_every_body_comes_back_from_both_forms(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values_of(kind))
    standard = fastjson.encode(value)
    json.loads(standard)
    assert fastjson.decode(standard, kind) == value
    assert fastjson.decode(fastjson.encode_java(value), kind) == value


@pytest.mark.parametrize("kind", body_structs(), ids=lambda kind: kind.__name__)
def test_members_are_declared_as_fastjson_orders_them(kind: type[Body]) -> None:
    assert members_in_order(kind) == sorted(members_in_order(kind))


@pytest.mark.parametrize("kind", body_structs(), ids=lambda kind: kind.__name__)
def test_an_empty_object_is_a_body_with_defaults_that_are_written(kind: type[Body]) -> None:
    value = fastjson.decode(b"{}", kind)
    assert value == kind()
    written = json.loads(fastjson.encode(value))
    assert None not in written.values()
    present = {name for name in members_in_order(kind) if name in written}
    absent = set(members_in_order(kind)) - present
    nullable = {field for field in absent if _default_of(kind, field) is not None}
    assert not nullable, "a member with a default is always written"


def _default_of(kind: type[Body], wire_name: str) -> object:
    names = dict(zip(members_in_order(kind), kind.__struct_fields__, strict=True))
    return getattr(kind(), names[wire_name])


@pytest.mark.parametrize("kind", json_bodies(), ids=str)
def test_a_body_keyed_by_queues_says_so(kind: Any) -> None:
    has_queue_keys = b"{{" in fastjson.encode_java(_full(kind))
    assert getattr(kind, "keyed_by_queues", False) == has_queue_keys


def _full(kind: Any) -> Any:
    """A value with something in every map."""
    from msgspec import inspect

    def build(info: inspect.Type) -> Any:
        match info:
            case inspect.StructType(cls=cls, fields=fields) if cls is not MessageQueue:
                return cls(**{field.name: build(field.type) for field in fields})
            case inspect.UnionType(types=types):
                return build(types[0])
            case inspect.ListType(item_type=item):
                return [build(item)]
            case inspect.DictType(key_type=key, value_type=value):
                return {build(key): build(value)}
            case inspect.StructType():
                return MessageQueue("T", "b", 0)
            case inspect.StrType():
                return "s"
            case inspect.BytesType():
                return b""
            case _:
                return 0

    return build(inspect.type_info(kind))


@some
@given(value=values_of(ResetOffsetBody))
def test_new_offsets_are_read_from_either_form(value: ResetOffsetBody) -> None:
    assert read_reset_offsets(encode_body(value)) == value
    listed = [
        QueueOffsetForC(broker_name=queue.broker_name, offset=offset, queue_id=queue.queue_id, topic=queue.topic)
        for queue, offset in value.offset_table.items()
    ]
    assert read_reset_offsets(encode_body(ResetOffsetBodyForC(offset_table=listed))) == value


@some
@given(value=values_of(RegisterBrokerBody), version=st.sampled_from([401, 409, 413, 513]))
def test_registrations_are_read_uncompressed(value: RegisterBrokerBody, version: int) -> None:
    data = encode_registration(value, compressed=False)
    assert decode_registration(data, compressed=False, version=version) == value


@some
@given(data=st.binary(max_size=200), version=st.sampled_from([409, 513]))
def test_hostile_registrations_are_refused(data: bytes, version: int) -> None:
    import zlib

    with pytest.raises(BadBody):
        decode_registration(data, compressed=True, version=version)
    with pytest.raises(BadBody):
        decode_registration(zlib.compress(data), compressed=True, version=version)


@some
@given(values=st.dictionaries(st.text(max_size=20), st.text(max_size=30), max_size=5))
def test_settings_come_back(values: dict[str, str]) -> None:
    body = PropertiesText(values)
    assert PropertiesText.decode(body.encode()) == body


@some
@given(data=st.binary(max_size=64))
def test_any_bytes_are_settings_or_refused(data: bytes) -> None:
    try:
        body = PropertiesText.decode(data)
    except BadBody:
        return
    assert PropertiesText.decode(body.encode()) == body


@some
@given(value=values_of(TimerCheckpoint))
def test_timer_check_points_come_back(value: TimerCheckpoint) -> None:
    assert TimerCheckpoint.decode(value.encode()) == value
