"""The software bill of materials of a server: CycloneDX, of an environment with the built wheel and nothing else."""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

TREE = Path(__file__).parents[2]
EXTRAS: Final = "server,compression,failover,metrics"
"""The packages that a server can use; Spark and its tables have bills of their own environments."""
OF_THE_ENVIRONMENT: Final = ("pip", "setuptools")


def bill() -> int:
    """Write ``dist/firearrow-VERSION.cdx.json``; return the exit status."""
    version = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["version"]
    wheel = TREE / "dist" / f"firearrow-{version}-py3-none-any.whl"
    if not wheel.exists():
        print(f"{wheel.name} is not in dist/: run make dist", file=sys.stderr)
        return 1
    target = TREE / "dist" / f"firearrow-{version}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="firearrow-bill-") as scratch:
        python = _installed(Path(scratch), wheel)
        words = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--validate"]
        words += ["--pyproject", str(TREE / "pyproject.toml"), "--mc-type", "application"]
        words += ["--spec-version", "1.6", "--output-format", "JSON", "--output-file", str(target), str(python)]
        subprocess.run(words, check=True)
    print(f"{target.relative_to(TREE)}: what firearrow[{EXTRAS}] brings")
    return 0


def _installed(scratch: Path, wheel: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(scratch)], check=True)
    python = scratch / "bin" / "python"
    constraints = str(TREE / "constraints.txt")
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", constraints, f"{wheel}[{EXTRAS}]"], check=True)
    for note in scratch.rglob("firearrow-*.dist-info/direct_url.json"):
        note.unlink()  # it names the path of the wheel on this machine
    subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *OF_THE_ENVIRONMENT], check=True)
    return python
