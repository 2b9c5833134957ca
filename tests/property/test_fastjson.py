"""fastjson's dialect: all forms of a value read back as that value, and garbage raises BadBody alone."""

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firearrow import fastjson
from firearrow.errors import BadBody
from firearrow.model.message import MessageQueue

# A busy machine makes generation and tests slow; that is not what these tests are about.
some, many = (
    settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples)
    for examples in (80, 200)
)


class Table(msgspec.Struct, frozen=True, rename="camel"):
    by_number: dict[int, list[str]]
    by_queue: dict[MessageQueue, dict[int, bool]]


numbers = st.integers(-(2**31), 2**31 - 1)
queues = st.builds(MessageQueue, st.text(), st.text(), numbers)
tables = st.builds(
    Table,
    st.dictionaries(numbers, st.lists(st.text(), max_size=3), max_size=4),
    st.dictionaries(queues, st.dictionaries(numbers, st.booleans(), max_size=3), max_size=4),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@some
@given(tables)
def test_both_forms_read_back(table: Table) -> None:
    assert fastjson.decode(fastjson.encode(table), Table) == table
    assert fastjson.decode(fastjson.encode_java(table), Table) == table


@some
@given(tables, st.sampled_from(["\t", " ", "\n\t\t"]))
def test_blanks_between_tokens_change_nothing(table: Table, blank: str) -> None:
    standard = msgspec.json.format(fastjson.encode(table), indent=2).decode()
    assert fastjson.decode(standard.replace("\n", "\n" + blank).encode(), Table) == table


@some
@given(values)
def test_standard_json_reads_as_itself(value: object) -> None:
    data = msgspec.json.encode(value)
    assert fastjson.read(data) == msgspec.json.decode(data)
    assert msgspec.json.decode(fastjson.to_standard(data)) == msgspec.json.decode(data)


@many
@given(st.text("{}[]:,\"'\\0-1.eau \n", max_size=40))
def test_garbage_raises_bad_body_alone(text: str) -> None:
    for kind in (Table, dict[MessageQueue, int], dict[int, str]):
        try:
            fastjson.decode(text.encode(), kind)
        except BadBody:
            continue


@some
@given(tables, st.data())
def test_damage_raises_bad_body_alone(table: Table, data: st.DataObject) -> None:
    whole = fastjson.encode_java(table)
    at = data.draw(st.integers(0, len(whole)))
    for damaged in (whole[:at], whole[:at] + data.draw(st.binary(max_size=3)) + whole[at:]):
        try:
            fastjson.decode(damaged, Table)
        except BadBody:
            continue
