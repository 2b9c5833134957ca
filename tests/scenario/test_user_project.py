"""``mypy --strict`` passes on a project written against the package, which says that it is typed."""

import sys

from mypy import api

from tests.scenario.blocks import ROOT

PROJECT = "tests/scenario/user_project"


def test_a_users_project_is_typed() -> None:
    words = ["--strict", "--explicit-package-bases", "--python-executable", sys.executable]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "user")]
    output, errors, status = api.run([*words, *cache, "--config-file", "", PROJECT])
    assert status == 0, output + errors
