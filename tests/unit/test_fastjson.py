import contextlib

import msgspec
import pytest

from firearrow import fastjson
from firearrow.errors import BadBody
from firearrow.model.message import MessageQueue
from firearrow.protocol.conversation import Int32, Int64


class Offsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    max_offset: Int64 = 0
    min_offset: Int64 = 0


class Table(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    by_queue: dict[Int32, Int64] = {}
    name: str | None = None
    offset_table: dict[MessageQueue, Offsets] = {}
    plain: dict[str, Int32] = {}
    ready: bool = False


TABLE = Table(by_queue={0: 5, -1: 6}, offset_table={MessageQueue("T", "a", 0): Offsets(max_offset=2)}, plain={"{x}": 1})
JAVA = (
    b'{"byQueue":{0:5,-1:6},"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"maxOffset":2,"minOffset":0}},'
    b'"plain":{"{x}":1},"ready":false}'
)


def test_java_s_form() -> None:
    assert fastjson.encode_java(TABLE) == JAVA
    assert fastjson.decode(JAVA, Table) == TABLE


def test_the_standard_form() -> None:
    data = fastjson.encode(TABLE)
    assert b'"{\\"brokerName\\":\\"a\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":{"maxOffset":2' in data
    msgspec.json.decode(data)
    assert fastjson.decode(data, Table) == TABLE
    assert fastjson.to_standard(JAVA) == fastjson.to_standard(fastjson.to_standard(JAVA))


def test_indented() -> None:
    data = b"""{
\t"byQueue":{0:5,-1:6
\t},
\t"offsetTable":{{
\t\t\t"brokerName":"a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:{
\t\t\t"maxOffset":2
\t\t}
\t},
\t"plain" : {"{x}":1}
}"""
    assert fastjson.decode(data, Table) == TABLE


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"name":null,"ready":null,"byQueue":null}', Table()),
        (b'{"byQueue":{"0":"5"},"ready":"true"}', Table(by_queue={0: 5}, ready=True)),
        (b"{'name':'it\\'s',ready:true}", Table(name="it's", ready=True)),
        (b'{"name":"a\tb\x01","x":[[{"y":{1:{}}}],-1.5e3,false]}', Table(name="a\tb\x01")),
        (b'{0:1,"name":"\\u4e2d\\ud83d\\udd25\\x41\\n\\/"}', Table(name="中🔥A\n/")),
        (b'{"plain":{"a":1,"a":2}}', Table(plain={"a": 2})),
        (b" {} \n", Table()),
    ],
)
def test_liberties(data: bytes, expected: Table) -> None:
    assert fastjson.decode(data, Table) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"[]",
        b"nul",
        b'"x"',
        b"{]",
        b'{"a":1,}',
        b"{,}",
        b'{"a" 1}',
        b'{"a":1 "b":2}',
        b"{}{}",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"name":"\\ud800"}',
        b'{"name":"\\q"}',
        b'{"name":"open}',
        b'{"x":NaN}',
        b'{"x":1e999,}',
        b'{1:2,"byQueue":{0:' + b"9" * 5000 + b"}}",
        b'{"byQueue":{0:9223372036854775808}}',
        b'{"byQueue":{"x":1}}',
        b'{"offsetTable":{"x":{}}}',
        b'{"offsetTable":{{"topic":"T"}:{}}}',
        b'{"offsetTable":{{{"a":1}:2}:{}}}',
        b"[" * 100_000,
        b"{" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_garbage_raises_bad_body_alone(data: bytes) -> None:
    with pytest.raises(BadBody):
        fastjson.decode(data, Table)


def test_the_reason_names_what_was_expected() -> None:
    with pytest.raises(BadBody, match=r"not a Table: Expected `int`.*byQueue"):
        fastjson.decode(b'{"byQueue":{0:"x"}}', Table)
    with pytest.raises(BadBody, match="expected ':'"):
        fastjson.decode(b"{1 2}", Table)


def test_what_looks_like_a_numeric_key_in_a_string_stays() -> None:
    tricky = '{"plain":{"a,1:2":1,"{3:\\"4,5:":2},"byQueue":{7:8 , 9 :10}}'
    assert fastjson.decode(tricky.encode(), Table) == Table(plain={"a,1:2": 1, '{3:"4,5:': 2}, by_queue={7: 8, 9: 10})
    with_zero = '{"name":"\\u0000","plain":{"\0,1:":1},"byQueue":{7:8}}'
    assert fastjson.decode(with_zero.encode(), Table) == Table(name="\0", plain={"\0,1:": 1}, by_queue={7: 8})


def test_deep_but_standard_json_is_no_crash() -> None:
    deep = b'{"name":null,"x":' + b"[" * 900 + b"]" * 900 + b',"ready":null}'
    with contextlib.suppress(BadBody):
        assert fastjson.decode(deep, Table) == Table()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "data",
    [
        b'{1:"' + b'\\"' * 300_000,
        b'{1:"' + b"\\" * 600_001,
        b"{1:2" + b"," * 600_000,
        b"{1:2," + b" " * 600_000,
        b"{1:2," + b"1" * 600_000,
        b"{1:2" + b",1 " * 200_000,
        b"{1:2," + b'"' * 600_001,
    ],
)
def test_long_garbage_takes_time_in_proportion(data: bytes) -> None:
    with pytest.raises(BadBody):
        fastjson.decode(data, Table)


def test_object_keys_compare_by_content() -> None:
    (first,) = fastjson.read(b'{{"a":1,"b":2}:0}')
    (second,) = fastjson.read(b'{{"b":2,"a":1}:0}')
    assert first == second
    assert hash(first) == hash(second)
    assert dict(first) == {"a": 1, "b": 2}
    assert len(first) == 2


def test_what_has_no_json_form_is_a_mistake_of_ours() -> None:
    with pytest.raises(NotImplementedError):
        fastjson.encode({"x": object()})
