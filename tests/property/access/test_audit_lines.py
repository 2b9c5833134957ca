"""The chain of the audit log: no single change of lines stays unseen, and an unfinished last line is no change."""

from hypothesis import given
from hypothesis import strategies as st

from firearrow.access.audit_lines import ChainEnd, Event, end_of, verify

EVENTS = st.builds(
    Event,
    time_ms=st.integers(0, 2**50),
    who=st.none() | st.text(max_size=8).map("User:{}".format),
    source=st.just("10.0.0.7:4321"),
    what=st.sampled_from(["SEND_MESSAGE_V2", "DELETE_TOPIC_IN_BROKER"]),
    things=st.lists(st.text(max_size=8), max_size=2).map(tuple),
    allowed=st.booleans(),
    why=st.text(max_size=8) | st.just(',"hash":"' + "0" * 64 + '"}'),
)
LOGS = st.lists(st.lists(EVENTS, max_size=4), min_size=1, max_size=3)
Files = list[tuple[str, bytes]]


def written(log: list[list[Event]], torn: bytes = b"") -> Files:
    """The files of a log; all but the last end with an unfinished line, if one is given."""
    chain, files = ChainEnd(), []
    for number, events in enumerate(log, 1):
        lines = [chain.first(number, len(torn) if number > 1 else 0), *map(chain.line, events)]
        files.append((str(number), b"".join(lines) + (torn if number < len(log) else b"")))
    return files


@given(LOGS, st.sampled_from([b"", b'{"seq":', b"x" * 70]))
def test_a_log_as_it_was_written_is_good(log: list[list[Event]], torn: bytes) -> None:
    files = written(log, torn)
    found = verify(files)
    assert (found.faults, found.torn) == ((), "")
    assert found.last == found.lines == sum(map(len, log)) + len(log)
    end = end_of(files[-1][1])
    assert end is not None
    assert (end[0].seq, end[0].hash, end[1]) == (found.last, found.hash, 0)
    assert verify(files, found.hash).has_hash
    assert not verify(files, "f" * 64).has_hash


@given(LOGS, st.data())
def test_any_change_of_a_byte_is_found(log: list[list[Event]], data: st.DataObject) -> None:
    files = written(log)
    number = data.draw(st.integers(0, len(files) - 1))
    name, content = files[number]
    is_last = number == len(files) - 1
    place = data.draw(st.integers(0, len(content) - 1 - is_last))  # without its last newline a line is unfinished
    how = data.draw(st.sampled_from(["change", "remove", "insert"]))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    changed = content[:place] + (b"" if how == "remove" else byte) + content[place + (how != "insert") :]
    if changed == content:
        return
    files[number] = (name, changed)
    assert verify(files).faults


@given(LOGS, st.data())
def test_any_line_that_is_removed_repeated_or_moved_is_found(log: list[list[Event]], data: st.DataObject) -> None:
    files = written(log)
    number = data.draw(st.integers(0, len(files) - 1))
    lines = files[number][1].splitlines(keepends=True)
    place = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["remove", "repeat", "swap", "cut"]))
    is_end = number == len(files) - 1 and place == len(lines) - 1
    if how == "remove":
        changed = lines[:place] + lines[place + 1 :]
    elif how == "repeat":
        changed = [*lines[: place + 1], lines[place], *lines[place + 1 :]]
    elif how == "swap":
        changed = [*lines[:place], *lines[place + 1 : place + 2], lines[place], *lines[place + 2 :]]
    else:
        changed = lines[:place]
    is_cut_end = how in ("remove", "cut") and number == len(files) - 1 and (is_end or how == "cut")
    is_cut_end = is_cut_end and bool(changed or number)  # a log without any line is a fault
    if changed == lines:
        return
    found = verify([*files[:number], (files[number][0], b"".join(changed)), *files[number + 1 :]], verify(files).hash)
    # Lines that are gone at the very end are seen by a hash that was kept elsewhere, and by nothing else.
    assert not found.has_hash if is_cut_end else found.faults


@given(LOGS.filter(lambda log: len(log) > 2))
def test_a_missing_file_in_the_middle_is_found(log: list[list[Event]]) -> None:
    files = written(log)
    assert verify([files[0], files[2]]).faults
    assert verify(files[1:]).faults == ()
    assert verify(files[1:]).first > 1


@given(LOGS, st.data())
def test_a_last_line_that_is_unfinished_is_told_and_is_no_fault(log: list[list[Event]], data: st.DataObject) -> None:
    files = written([*log, [Event(1, None, "a", "b", (), allowed=False, why="c")]])
    name, content = files[-1]
    start = content.rstrip(b"\n").rindex(b"\n") + 1
    cut = data.draw(st.integers(start + 1, len(content) - 1))
    found = verify([*files[:-1], (name, content[:cut])])
    assert (found.faults, found.torn) == ((), f"{name}, line 2")
