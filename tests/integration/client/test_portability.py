"""The client where calls are missing that only some systems have. It is written for those systems, not run on them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from judges import FireArrowBroker, fresh

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]


def test_everything_works_without_what_some_systems_lack(broker: FireArrowBroker, tmp_path: Path) -> None:
    topic = broker.create_topic(fresh("elsewhere"))
    words = [sys.executable, "-m", "tests.integration.client.elsewhere", broker.name_servers[0], topic]
    environment = {**os.environ, "HOME": str(tmp_path)}
    ran = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "all of it" in ran.stdout
    assert list(tmp_path.glob(".rocketmq_offsets/*/*/offsets.json"))
