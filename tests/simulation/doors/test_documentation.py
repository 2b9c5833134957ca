"""The example on the simulator's page runs as printed."""

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs/internals/simulator.md"


def test_the_example_runs() -> None:
    example = PAGE.read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    names["test_it"]()
