"""The tutorial's programs do what the page says, one after the other, at a cluster of ours."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from judges import FireArrowBroker, FireArrowNameServer

pytestmark = pytest.mark.real

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "first-messages.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = ["SEND_OK", "sent 100", "handled 101", "counted 201", "ordered paid served", "read 201", "hello"]


def test_every_program_runs() -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == len(SAID)
    with FireArrowNameServer() as names, FireArrowBroker(name_servers=[names.address]):
        for block, said in zip(blocks, SAID, strict=True):
            program = block.replace("127.0.0.1:9876", names.address)
            ran = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
            )
            assert ran.returncode == 0, ran.stderr
            assert said in ran.stdout
