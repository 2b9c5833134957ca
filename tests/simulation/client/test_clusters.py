"""Random clusters under faults, with our client as their user."""

import logging

import pytest

from tests.simulation.client.chaos import run

SEEDS = 60


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("first", range(0, SEEDS, 6))
def test_what_is_acknowledged_is_handled_and_nothing_stops_for_good(first: int) -> None:
    stories = [run(seed) for seed in range(first, first + 6)]
    assert sum(len(story.acknowledged) for story in stories) > 200
    assert sum(sum(story.steps.values()) for story in stories) > 10
