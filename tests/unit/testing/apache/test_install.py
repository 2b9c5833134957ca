"""The artifacts that are made without being named, and the built version of the Rust client."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

import judges.__main__ as command
from judges import CAPABILITIES, CLIENTS
from judges.install.artifacts import BY_NAME_ONLY, RUST_CLIENT, RUST_TARGET, all_artifacts

RUST = Path(__file__).parents[4] / "judges" / "programs" / "rust"


def test_what_takes_long_is_made_only_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []

    def install(names: Sequence[str], *, archives: bool) -> int:  # noqa: ARG001
        made.append(list(names))
        return 0

    monkeypatch.setattr(command, "_install", install)
    command.main(["install"])
    command.main(["install", "--only", "rust"])
    assert made == [[name for name in all_artifacts() if name not in BY_NAME_ONLY], ["rust"]]
    assert "rust" in all_artifacts()
    assert set(CAPABILITIES) - set(CLIENTS) == BY_NAME_ONLY


def test_cleaning_keeps_what_cargo_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIREARROW_CACHE", str(tmp_path))
    for name in (RUST_TARGET, "rust-000000000000"):
        (tmp_path / name).mkdir()
    command.main(["clean"])
    assert [path.name for path in tmp_path.iterdir()] == [RUST_TARGET]


def test_the_version_of_the_rust_client_is_the_one_that_is_built() -> None:
    wanted = tomllib.loads((RUST / "Cargo.toml").read_text())["dependencies"]
    clients = [name for name in wanted if name.startswith("rocketmq-")]
    assert "rocketmq-client-rust" in clients
    assert {wanted[name] for name in clients} == {f"={RUST_CLIENT}"}
