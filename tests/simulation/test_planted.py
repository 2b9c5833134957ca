"""What got past every suite once is caught now, for ever."""

import pytest

from tests.simulation.failoverplants import FAILOVER_PART_PLANTS, FAILOVER_PLANTS, GroupPlant
from tests.simulation.messageplants import MESSAGE_PLANTS
from tests.simulation.partplants import PART_PLANTS, PartPlant
from tests.simulation.planted import SEEDS, caught
from tests.simulation.plants import PLANTS, Plant


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", [*PLANTS, *FAILOVER_PLANTS], ids=lambda plant: plant.finding)
def test_a_fault_that_is_put_back_is_caught(plant: Plant | GroupPlant) -> None:
    seen = caught(plant)
    assert seen is not None, f"{SEEDS} clusters did not see {plant.put_back.__name__}"
    assert seen.is_expected, f"{plant.put_back.__name__} was seen as something else: {seen.words}"


@pytest.mark.parametrize(
    "plant", [*PART_PLANTS, *MESSAGE_PLANTS, *FAILOVER_PART_PLANTS], ids=lambda plant: plant.put_back.__name__
)
def test_a_fault_of_one_part_is_caught_by_its_test(plant: PartPlant) -> None:
    seen = caught(plant, 1)
    assert seen is not None, f"{plant.put_back.__name__} was not seen"
    assert seen.is_expected, f"{plant.put_back.__name__} was seen as something else: {seen.words}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", [*PLANTS, *FAILOVER_PLANTS], ids=lambda plant: plant.finding)
def test_the_same_clusters_are_sound_without_it(plant: Plant | GroupPlant) -> None:
    for seed in range(2):
        plant.hunt(seed)
