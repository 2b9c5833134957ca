"""Parsers that anybody reaches take little CPU for their bytes, beside an ordinary send; the worst inputs are kept."""

import msgspec
import pytest

from firearrow.protocol import header_json
from firearrow.protocol.command import Encoding
from fuzz.costs import ANYBODY, REACHES, cost_of, ordinary_send, parse_of, read_as_a_stranger
from fuzz.found_inputs import FLOOR_SENDS, FOUND, ORDINARY_BYTES, TIMES, allowed_sends, found_of
from fuzz.header_seeds import framed

REACHED = sorted(target for target, reach in REACHES.items() if reach.who == ANYBODY)
EXPONENTS = b'{"code":9999,"flag":0,"opaque":1,"a":[%s]}' % b",".join([b"1e300"] * 1000)


def test_every_target_says_who_reaches_it() -> None:
    targets = {path.stem for path in FOUND.parent.glob("fuzz_*.py")}
    assert targets == set(REACHES)
    assert {path.name for path in FOUND.iterdir()} <= targets
    assert all(REACHES[target].times == TIMES for target in REACHED)


def test_an_ordinary_send_takes_a_part_of_what_is_allowed() -> None:
    assert len(ordinary_send()) == ORDINARY_BYTES
    assert cost_of(read_as_a_stranger, ordinary_send()).share < 2 / (FLOOR_SENDS + TIMES)
    assert allowed_sends(0) == FLOOR_SENDS


@pytest.mark.parametrize("target", REACHED)
def test_inputs_that_were_found_take_no_more_than_is_allowed(target: str) -> None:
    inputs = found_of(target)
    assert inputs, "the worst input of a parser that anybody reaches is kept"
    for data in inputs:
        cost = cost_of(parse_of(target), data)
        assert cost.share <= 1, f"{len(data)} bytes took {cost.seconds * 1e6:.0f} us: {data.hex()}"


def test_a_parser_that_reads_numbers_slowly_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = framed(Encoding.JSON, EXPONENTS)
    assert cost_of(read_as_a_stranger, frame).share <= 1
    monkeypatch.setattr(header_json, "_decode_members", msgspec.json.decode)
    assert cost_of(read_as_a_stranger, frame).share > 1
