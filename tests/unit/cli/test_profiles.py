"""Profiles: kept for their owner alone, used by name, never printed with their secret."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from firearrow.cli.app import app
from firearrow.cli.operate.user_file import Profile, chosen_profile, profiles_file, read_profiles, write_profiles
from firearrow.errors import NoSuchName, SettingsError

RUNNER = CliRunner()
SECRET = "correct-horse-battery"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    names = {"FIREARROW_NAMESRV": "", "FIREARROW_NAMESRV_ADDR": "", "NAMESRV_ADDR": "", "FIREARROW_PROFILE": ""}
    return {**names, "XDG_CONFIG_HOME": str(tmp_path)}


def test_a_profile_is_kept_for_its_owner_alone_and_used_by_name(environment: dict[str, str]) -> None:
    words = ["profile", "add", "prod", "-n", "127.0.0.1:1", "--access-key", "ops", "--secret-key", SECRET]
    added = RUNNER.invoke(app, words, env=environment)
    assert added.exit_code == 0, added.output
    file = profiles_file(environment)
    assert file.stat().st_mode & 0o777 == 0o600
    assert chosen_profile("prod", file) == Profile("127.0.0.1:1", access_key="ops", secret_key=SECRET)
    asking = ["topic list --profile prod", "--profile prod topic list", "broker list --profile prod"]
    for asked in [words.split() for words in asking]:
        assert "127.0.0.1:1" in RUNNER.invoke(app, asked, env=environment).stderr
    named = {**environment, "FIREARROW_PROFILE": "prod", "NAMESRV_ADDR": "127.0.0.1:2"}
    assert "127.0.0.1:1" in RUNNER.invoke(app, ["topic", "list"], env=named).stderr
    assert "127.0.0.1:3" in RUNNER.invoke(app, ["topic", "list", "-n", "127.0.0.1:3"], env=named).stderr


def test_the_secret_is_asked_for_and_never_printed(environment: dict[str, str]) -> None:
    words = ["profile", "add", "prod", "-n", "127.0.0.1:1", "--access-key", "ops"]
    shown = RUNNER.invoke(app, words, env=environment, input=f"{SECRET}\n").output
    assert chosen_profile("prod", profiles_file(environment)).secret_key == SECRET
    for asked in (["profile", "list"], ["profile", "list", "--json"], ["profile", "remove", "prod"]):
        shown += RUNNER.invoke(app, asked, env=environment).output
    assert "ops" in shown
    assert SECRET not in shown
    assert read_profiles(profiles_file(environment)) == {}


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "profiles.json"
    write_profiles(file, {"a": Profile("127.0.0.1:1")})
    os.chmod(file, 0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_profiles(file)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {}}'])
def test_a_file_that_holds_no_profiles_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "profiles.json"
    file.touch(mode=0o600)
    file.write_text(text)
    with pytest.raises(SettingsError, match="mend or remove"):
        read_profiles(file)


def test_a_profile_that_is_not_there_is_named_with_those_that_are(environment: dict[str, str]) -> None:
    file = profiles_file(environment)
    write_profiles(file, {"prod": Profile("127.0.0.1:1")})
    with pytest.raises(NoSuchName, match="there are: prod"):
        chosen_profile("prd", file)
    wrong = {**environment, "FIREARROW_PROFILE": "prd"}
    assert RUNNER.invoke(app, ["profile", "list"], env=wrong).exit_code == 0
    for words in (["topic", "list"], ["broker", "list"], ["produce", "T", "-m", "x"]):
        result = RUNNER.invoke(app, words, env=wrong)
        assert result.exit_code == 1
        assert "firearrow profile add prd" in result.stderr
