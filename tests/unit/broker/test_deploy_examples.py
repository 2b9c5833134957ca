"""The sample settings of the deployment modes are usable, and each mode has the brokers that it names."""

from pathlib import Path

import pytest

from firearrow.broker.settings.config import BrokerSettings, load_settings
from firearrow.settings import Source, parse_properties

ROOT = Path(__file__).parents[3] / "examples" / "deploy"
MODES = {
    "single-master": ["ASYNC_MASTER"],
    "several-masters": ["ASYNC_MASTER"] * 2,
    "masters-with-async-slaves": ["ASYNC_MASTER", "SLAVE"] * 2,
    "masters-with-sync-slaves": ["SYNC_MASTER", "SLAVE"] * 2,
    "elected-group": ["ASYNC_MASTER"] * 3,  # the role is not read: the group elects its master
}


def settings_of(path: Path) -> BrokerSettings:
    loaded = load_settings([Source(path.name, parse_properties(path.read_text()))])
    assert not loaded.warnings
    return loaded.value


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_has_its_brokers(mode: str) -> None:
    brokers = [settings_of(path) for path in sorted((ROOT / mode).glob("*.conf"))]
    assert sorted(broker.replication.broker_role for broker in brokers) == sorted(MODES[mode])
    names = [(broker.broker.broker_name, broker.broker.broker_id) for broker in brokers]
    assert len(set(names)) == len(names)
    assert len({broker.broker.store_path_root_dir for broker in brokers}) == len(brokers)


def test_every_mode_is_listed() -> None:
    assert sorted({path.parent.name for path in ROOT.glob("*/broker-*.conf")}) == sorted(MODES)
    page = (ROOT / "README.md").read_text()
    assert all(f"({mode}/)" in page for mode in MODES)
