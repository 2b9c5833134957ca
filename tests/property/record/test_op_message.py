"""Op messages: what is written is read again, whatever else is read does no harm."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.record.op_message import is_batched, op_bodies, parse_op

offsets = st.lists(st.integers(0, (1 << 63) - 1), max_size=200)


@given(offsets, st.integers(32, 4096), st.booleans())
def test_what_is_written_is_read_again(named: list[int], max_size: int, is_single: bool) -> None:
    bodies = list(op_bodies(named, max_size=max_size, is_single=is_single))
    assert [offset for body in bodies for offset in parse_op(body)] == named
    assert all(len(body) <= max_size for body in bodies)
    if is_single:
        assert [int(body) for body in bodies] == named, "as 4.9 reads them"
    assert all(is_batched(body) == (len(parse_op(body)) > 1) for body in bodies)


@given(st.binary(max_size=300) | st.text("0123456789,-+ ²", max_size=60).map(str.encode))
def test_any_body_is_read(body: bytes) -> None:
    assert all(0 <= offset < 10**19 for offset in parse_op(body))


def test_the_forms_of_apache() -> None:
    assert parse_op(b"17") == [17]  # 4.9
    assert parse_op(b"17,18,21,") == [17, 18, 21]  # 5.x
    assert parse_op(b"") == []
    assert parse_op(b"x,5,-1,") == [5]
