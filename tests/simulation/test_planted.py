"""Faults that got past every suite once are caught now, for ever."""

import importlib
from pathlib import Path

import pytest

from tests.simulation import planted
from tests.simulation.failoverplants import GroupPlant
from tests.simulation.partplants import PartPlant
from tests.simulation.planted import IN_CLUSTERS, IN_PARTS, SEEDS, caught, named
from tests.simulation.plants import Plant


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", IN_CLUSTERS, ids=lambda plant: plant.finding)
def test_a_fault_that_is_put_back_is_caught(plant: Plant | GroupPlant) -> None:
    seen = caught(plant)
    assert seen is not None, f"{SEEDS} clusters did not see {plant.put_back.__name__}"
    assert seen.is_expected, f"{plant.put_back.__name__} was seen as something else: {seen.words}"


@pytest.mark.parametrize("plant", IN_PARTS, ids=lambda plant: plant.put_back.__name__)
def test_a_fault_of_one_part_is_caught_by_its_test(plant: PartPlant) -> None:
    seen = caught(plant, 1)
    assert seen is not None, f"{plant.put_back.__name__} was not seen"
    assert seen.is_expected, f"{plant.put_back.__name__} was seen as something else: {seen.words}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", IN_CLUSTERS, ids=lambda plant: plant.finding)
def test_the_same_clusters_are_sound_without_it(plant: Plant | GroupPlant) -> None:
    for seed in range(2):
        plant.hunt(seed)


def test_the_command_has_the_faults_of_every_list() -> None:
    folder = Path(planted.__file__).parent
    modules = [importlib.import_module(f"tests.simulation.{path.stem}") for path in sorted(folder.glob("*plants.py"))]
    lists = [value for module in modules for name, value in vars(module).items() if name.endswith("PLANTS")]
    all_faults = named([])
    assert len(modules) > 5
    assert [plant.what for plants in lists for plant in plants if plant not in all_faults] == []


def test_a_name_without_a_fault_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert {plant.finding for plant in named(["E1", "E8"])} == {"E1", "E8"}
    monkeypatch.setattr("sys.argv", ["planted", "E1", "E99"])
    assert planted.main() == 2
    assert "no fault is planted for E99" in capsys.readouterr().err
