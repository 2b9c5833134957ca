import json
import time

import msgspec
import pytest

from firearrow.errors import BadHeader
from firearrow.protocol import header_json
from firearrow.protocol.command import FIELDS_MAX, BadFields
from firearrow.protocol.header_json import DIALECT_BYTES_MAX, DIALECT_TEXTS_MAX, MEMBERS_MAX
from firearrow.protocol.serialize import encode_answer, encode_request, ext_fields, read_heading
from tests.unit.protocol.commands import (
    CATALOGUE,
    JSON,
    SEEK,
    Boundary,
    Found,
    Nothing,
    Optional,
    Seek,
    decode_answer,
    header_of,
)
from tests.yardstick import steady_s


def seek(ext: str, code: str = "29") -> Seek:
    request = CATALOGUE.decode_request(JSON, f'{{"code":{code},"extFields":{{{ext}}},"opaque":7}}'.encode()).request
    assert isinstance(request, Seek)
    return request


REQUIRED = '"topic":"T","queueId":"3","timestamp":"5"'


def test_requests_look_like_java_s() -> None:
    assert header_of(JSON, SEEK, 9) == (
        b'{"code":29,"extFields":{"exact":"true","g":"a\\"b","queueId":"3","timestamp":"1700000000000","topic":"T"},'
        b'"flag":0,"language":"PYTHON","opaque":9,"serializeTypeCurrentRPC":"JSON","version":513}'
    )


def test_commas_around_absent_fields() -> None:
    for request in (
        Optional(),
        Optional(name="n"),
        Optional(size=1),
        Optional(name="n", size=1),
        Nothing(),
        SEEK,
        Seek(topic="", queue_id=0, timestamp=0, boundary=Boundary.UPPER, weight=0.5, verbose=False),
    ):
        header = header_of(JSON, request)
        msgspec.json.decode(header)
        assert CATALOGUE.decode_request(JSON, header).request == request


def test_answers_look_like_java_s() -> None:
    head = encode_answer(JSON, 7, Found(offset=3), 0, None, 5)
    assert head[8:] == (
        b'{"code":0,"extFields":{"offset":"3"},"flag":1,"language":"PYTHON","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    assert head[:8] == (4 + len(head) - 8 + 5).to_bytes(4, "big") + (len(head) - 8).to_bytes(4, "big")


def test_a_refusal_has_a_remark_and_no_fields() -> None:
    assert encode_answer(JSON, 7, None, 17, 'no "T"')[8:] == (
        b'{"code":17,"flag":1,"language":"PYTHON","opaque":7,"remark":"no \\"T\\"",'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )


def test_one_way_flag_and_extra_fields() -> None:
    header = encode_request(JSON, SEEK, 1, oneway=True, extra={"AccessKey": "k"})[8:]
    heading = CATALOGUE.decode_request(JSON, header)
    assert heading.is_oneway
    assert not heading.is_answer
    assert heading.request == SEEK
    assert ext_fields(JSON, header)["AccessKey"] == "k"


def test_golden_header() -> None:
    header = (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    heading, _ = read_heading(JSON, header)
    assert (heading.code, heading.flag, heading.opaque, heading.version, heading.language) == (105, 0, 0, 479, "JAVA")
    assert ext_fields(JSON, header) == {"topic": "T"}


def test_what_is_absent_has_java_s_default() -> None:
    heading = CATALOGUE.decode_request(JSON, b'{"code":106}')
    assert (heading.flag, heading.opaque, heading.version, heading.language, heading.remark) == (0, 0, 0, "JAVA", None)
    assert heading.request == Nothing()


@pytest.mark.parametrize(
    "ext",
    [
        '"topic":"T","queueId":3,"timestamp":5',
        '"topic":"T","queueId":"+3","timestamp":"005"',
        REQUIRED + ',"verbose":null,"g":null',
        REQUIRED + ',"unknown":{"a":[1,{}]},"more":"x"',
        '"topic":"X",' + REQUIRED,
        "'topic':'T',queueId:3,timestamp:'5'",
    ],
)
def test_leniency(ext: str) -> None:
    assert seek(ext) == Seek(topic="T", queue_id=3, timestamp=5)


def test_scalars_become_text() -> None:
    assert seek('"topic":12,"queueId":"3","timestamp":"5","g":true') == Seek(
        topic="12", queue_id=3, timestamp=5, group="true"
    )


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ('"true"', True),
        ('"TRUE"', True),
        ("true", True),
        ('"1"', False),
        ("1", False),
        ('"yes"', False),
        ('"0"', False),
    ],
)
def test_booleans_are_java_s(value: str, meaning: bool) -> None:
    assert seek(f'{REQUIRED},"exact":{value}').exact is meaning
    assert seek(f'{REQUIRED},"verbose":{value}').verbose is meaning


@pytest.mark.parametrize(
    "member", [r'"exact":"\u0031"', r'"\u0065xact":"1"', r'"exac\u0074": 1', r'"a":"\u0001","exact":1']
)
def test_a_boolean_of_one_is_false_with_escapes(member: str) -> None:
    assert seek(f"{REQUIRED},{member}").exact is False


def test_enums_in_any_case() -> None:
    assert seek(REQUIRED + ',"boundary":"upper"').boundary is Boundary.UPPER
    assert seek(REQUIRED + ',"boundary":"UPPER"').boundary is Boundary.UPPER


@pytest.mark.parametrize(
    ("ext", "reason"),
    [
        ('"queueId":"3","timestamp":"5"', "<topic> is null"),
        ('"topic":null,"queueId":"3","timestamp":"5"', "<topic> is null"),
        ('"topic":"T","queueId":"2147483648","timestamp":"5"', "<queueId>"),
        ('"topic":"T","queueId":"3","timestamp":"9223372036854775808"', "<timestamp>"),
        ('"topic":"T","queueId":" 3","timestamp":"5"', "<queueId>"),
        ('"topic":"T","queueId":"","timestamp":"5"', "<queueId>"),
        (REQUIRED + ',"boundary":"middle"', "<boundary>"),
        (REQUIRED + ',"weight":"heavy"', "<weight>"),
    ],
)
def test_bad_fields_name_the_field_and_who_asked(ext: str, reason: str) -> None:
    with pytest.raises(BadFields, match=reason) as caught:
        seek(ext)
    assert (caught.value.heading.opaque, caught.value.heading.code) == (7, 29)


def test_members_in_any_order_and_with_blanks() -> None:
    header = b'{ "extFields" : {"topic":"T","queueId":"3","timestamp":"5"},\n"opaque":7, "code" : 29 }\n'
    heading = CATALOGUE.decode_request(JSON, header)
    assert heading.request == Seek(topic="T", queue_id=3, timestamp=5)
    assert heading.opaque == 7


def test_code_and_opaque_as_strings_and_odd_languages() -> None:
    heading = CATALOGUE.decode_request(JSON, b'{"code":"106","opaque":"5","language":"KLINGON","version":null}')
    assert (heading.request, heading.opaque, heading.language) == (Nothing(), 5, "KLINGON")
    assert CATALOGUE.decode_request(JSON, b'{"code":106,"language":null}').language == "JAVA"


def test_an_unknown_code_has_no_request() -> None:
    heading = CATALOGUE.decode_request(JSON, b'{"code":4711,"opaque":3,"extFields":{"a":1}}')
    assert (heading.request, heading.code, heading.opaque) == (None, 4711, 3)


def test_an_answer_is_not_taken_for_a_request() -> None:
    for header in (b'{"code":29,"flag":1,"opaque":3}', f'{{"code":29,"extFields":{{{REQUIRED}}},"flag":1}}'.encode()):
        heading = CATALOGUE.decode_request(JSON, header)
        assert heading.is_answer
        assert heading.request is None


def test_answers_decode_by_the_type_asked_for() -> None:
    header = encode_answer(JSON, 7, Found(offset=3, note="n"))[8:]
    assert decode_answer(JSON, header, Found).request == Found(offset=3, note="n")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"{}x",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"code":"x"}',
        b'{"code":29,"opaque":2147483648}',
        b'{"code":29,"extFields":[]}',
        b'{"code":29,"extFields":"x"}',
        b'{"code":1e400}',
        b'{"code":29,"extFields":{"topic":"\\ud800"}}',
        b'{"code":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"code":29,"extFields":' * 1000,
    ],
)
def test_hostile_headers_raise_bad_header_alone(header: bytes) -> None:
    with pytest.raises(BadHeader):
        CATALOGUE.decode_request(JSON, header)
    with pytest.raises(BadHeader):
        ext_fields(JSON, header)


def test_the_dialect_is_read_up_to_a_number_of_members() -> None:
    many = "".join(f"'x{number}':'y'," for number in range(DIALECT_TEXTS_MAX))
    with pytest.raises(BadHeader, match="fastjson's own form is read up to"):
        CATALOGUE.decode_request(JSON, f"{{{many}'code':106}}".encode())
    assert CATALOGUE.decode_request(JSON, f"{{{many}'code':106}}".replace("'", '"').encode()).request == Nothing()


def test_the_dialect_is_read_up_to_a_number_of_bytes() -> None:
    rest = "{'x':'','code':106}"
    longest = rest.replace("''", "'" + "y" * (DIALECT_BYTES_MAX - len(rest)) + "'").encode()
    assert CATALOGUE.decode_request(JSON, longest).request == Nothing()
    with pytest.raises(BadHeader, match=f"fastjson's own form is read up to {DIALECT_BYTES_MAX} bytes"):
        CATALOGUE.decode_request(JSON, longest.replace(b"y", b"yy", 1))
    assert CATALOGUE.decode_request(JSON, longest.replace(b"'", b'"') + b" ").request == Nothing()


def test_control_characters_in_texts_of_the_dialect_are_read() -> None:
    controls = "".join(map(chr, range(1, 0x20)))
    header = f"{{code:29,extFields:{{topic:'a{controls}b{controls}'}}}}".encode()
    assert ext_fields(JSON, header)["topic"] == f"a{controls}b{controls}"


@pytest.mark.parametrize("count", [FIELDS_MAX - 3, FIELDS_MAX + 1])
@pytest.mark.parametrize("form", ['"x{}":"y"', '"x{}":1'])
def test_a_header_has_a_bounded_number_of_fields(form: str, count: int) -> None:
    ext = ",".join([REQUIRED, *(form.format(number) for number in range(count))])
    if count < FIELDS_MAX:
        assert seek(ext) == Seek(topic="T", queue_id=3, timestamp=5)
        return
    with pytest.raises(BadFields, match=f"more than {FIELDS_MAX} fields") as caught:
        seek(ext)
    assert caught.value.heading.opaque == 7


LARGE = {
    "texts": '"x%d":"y"',
    "numbers": '"x%d":1',
    "blanks": '"x%d" \t:\n "y"',
    "escaped backslashes": '"%d\\\\":"y\\\\"',
    "escaped letters": '"%d\\n":"y"',
    "escaped letters and quotes": '"%d\\"\\n":"\\":"',
    "colons": '":%d":":"',
}


@pytest.mark.parametrize("form", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("where", ["extFields", "header", "nested"])
def test_the_fields_of_a_large_header_are_counted_without_reading_them(
    form: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = ",".join(form % number for number in range(40_000))
    ext = {"extFields": f"{REQUIRED},{many}", "header": REQUIRED, "nested": f'{REQUIRED},"z":{{{many}}}'}[where]
    header = f'{{"code":29,"extFields":{{{ext}}},"opaque":7{"," + many if where == "header" else ""}}}'.encode()
    read = _read_with(monkeypatch)
    for request in (header, header.replace(b'"code":29', b'"code":4711'), header.replace(b'"3"', b"null")):
        with pytest.raises(BadFields, match=f"more than {FIELDS_MAX} fields") as caught:
            CATALOGUE.decode_request(JSON, request)
        assert (caught.value.heading.opaque, caught.value.heading.request) == (7, None)
    assert read == []


def _read_with(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the decoders that make an object of every member, when they are used."""
    used: list[str] = []
    for name in ("_decode_members", "_decode_texts"):
        monkeypatch.setattr(header_json, name, lambda _, name=name: used.append(name))
    return used


def test_texts_that_hold_json_are_no_fields() -> None:
    inner = json.dumps({f"n{number}": f":{number}" for number in range(4 * MEMBERS_MAX)})
    for text in (inner, json.dumps(inner), ":" * 5000, '\\":' * 5000):
        ext = f'{REQUIRED},"p":{json.dumps(text)}'
        assert seek(ext) == Seek(topic="T", queue_id=3, timestamp=5)
        assert seek(ext.replace('"3"', "3")) == Seek(topic="T", queue_id=3, timestamp=5)


def test_many_marks_of_fields_in_values_are_no_fields() -> None:
    ext = REQUIRED + ',"p":"' + "a:b," * FIELDS_MAX + '"'
    assert seek(ext) == Seek(topic="T", queue_id=3, timestamp=5)


def test_control_characters_in_texts_are_read() -> None:
    assert seek('"topic":"a\x01b\tc","queueId":"3","timestamp":"5"').topic == "a\x01b\tc"


def test_numbers_with_large_exponents_cost_no_more_than_others() -> None:
    header = b'{"code":4711,"x":[' + b",".join([b"1e300"] * 20_000) + b"]}"
    began = time.thread_time()
    assert CATALOGUE.decode_request(JSON, header).code == 4711
    assert steady_s(time.thread_time() - began, 0.05) < 0.05, "as typed numbers they take 200 ms"
