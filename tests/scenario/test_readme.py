"""The README's blocks do what they say: shell blocks and Python blocks are run, in order, in an empty directory."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from firearrow.testing.apache.ports import free_port

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_five_minute_start(tmp_path: Path) -> None:
    port = str(free_port())
    script = ["set -euo pipefail"]
    for number, (language, text) in enumerate(BLOCK.findall(README.read_text().replace("9876", port))):
        if language == "bash":
            script.append(text)
            continue
        (tmp_path / f"block{number}.py").write_text(text)
        script.append(f"for i in $(seq 100); do (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null && break; sleep 0.1; done")
        script.append(f"{sys.executable} block{number}.py")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env=environment,
        stdout=(output := (tmp_path / "output").open("w+")),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        status = shell.wait(timeout=60)
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
    output.seek(0)
    text = output.read()
    output.close()
    assert status == 0, text
    assert "Orders is ordered over broker-a:4" in text
