"""The table of lines by room on the page of packages is of this tree."""

from tests.architecture.sizes import PAGE, TABLE, counted, lines_now, main, table

SOMEWHAT = 1_000
"""Lines by which a room may differ from the page until the command is run again."""


def said() -> dict[str, tuple[int, int]]:
    """The rows of the page: lines before and now."""
    found = TABLE.search(PAGE.read_text())
    assert found is not None
    rows = [line.replace(",", "").split(" | ") for line in found[0].splitlines() if line.startswith("| ")][1:]
    return {row[0].removeprefix("| "): (int(row[1]), int(row[2])) for row in rows}


def test_the_page_has_the_rooms_of_the_tree() -> None:
    now, rows = lines_now(), said()
    total_before, total_now = rows.pop("**src**")
    assert total_before == sum(before for before, _ in rows.values())
    assert total_now == sum(after for _, after in rows.values())
    assert {room for room, (_, after) in rows.items() if after} == set(now), f"run python -m {main.__module__}"
    wrong = {room: now[room] for room, (_, after) in rows.items() if abs(now[room] - after) > SOMEWHAT}
    assert not wrong, f"run python -m {main.__module__}"


def test_lines_are_counted_by_room() -> None:
    files = [("src/firearrow/store/log/flush.py", "a\nb\n"), ("src/firearrow/store/store.py", "a\n")]
    files += [("src/firearrow/errors.py", "\n"), ("src/pyspark_firearrow/__init__.py", "a\n")]
    assert counted(files) == {"store": 3, "errors": 1, "pyspark_firearrow": 1}


def test_a_room_that_is_gone_stays_in_the_table() -> None:
    rows = table("abc", {"store": 1_200, "old": 5}, {"store": 1_000, "new": 7}).splitlines()[2:]
    assert rows == ["| new | 0 | 7 | +7 |", "| old | 5 | 0 | -5 |", "| store | 1,200 | 1,000 | -200 |",
                    "| **src** | 1,205 | 1,007 | -198 |"]  # fmt: skip
