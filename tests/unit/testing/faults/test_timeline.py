"""A window of loss, by a writer's own clock."""

from campaigns.faults.timeline import Span, Timeline

MS = 1_000_000


def beats(*at_ms: int) -> list[int]:
    return [ms * MS for ms in at_ms]


def test_parsing_takes_whole_lines_alone() -> None:
    said = b"# open 0\n# syncing 5\n12 0 some promise\n# synced 9\n# beat 7 400\n# beat 8 90"
    assert Timeline.parse(said, 20) == Timeline([Span(5, 9)], [7], 400)


def test_syncs_that_overlap_are_one_stretch_and_the_last_may_not_have_ended() -> None:
    said = b"# syncing 5\n# syncing 6\n# synced 7\n# synced 9\n# syncing 12\n"
    assert Timeline.parse(said, 20) == Timeline([Span(5, 9), Span(12, 20)], [])


def test_nothing_is_missed_while_it_beats() -> None:
    assert Timeline(beats=beats(0, 20, 40, 60)).missed_ms(10 * MS, 70 * MS) == 0


def test_a_loop_that_does_not_turn_is_missed() -> None:
    timeline = Timeline(beats=beats(0, 20, 520, 540))
    assert timeline.missed_ms(0, 550 * MS) == 480
    assert timeline.missed_ms(0, 1540 * MS) == 480 + 980, "it may not have turned when it was cut"


def test_a_sync_in_another_thread_is_missed_too_and_counted_once() -> None:
    timeline = Timeline([Span(100 * MS, 400 * MS)], beats(*range(0, 200, 20), 390, 400))
    assert timeline.missed_ms(0, 410 * MS) == 300
