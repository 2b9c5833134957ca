"""Completion in the shells themselves: what a person gets for Tab."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.real
SECONDS = 60


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home of its own, in which completion is installed."""
    scripts = Path(sys.executable).parent
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "TERM": "dumb",
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
    }


def install(shell: str, environment: dict[str, str]) -> None:
    assert shutil.which(shell), f"{shell} is not installed; .ci/install-system installs it"
    # A shell in between: the command installs for the shell that runs it.
    ran = subprocess.run(
        [shell, "-c", "firearrow --install-completion; true"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert f"{shell} completion installed" in ran.stdout, ran.stdout + ran.stderr


def test_bash(environment: dict[str, str]) -> None:
    install("bash", environment)
    asked = (
        "source ~/.bashrc; COMP_WORDS=(firearrow topic cre); COMP_CWORD=2; COMP_LINE='firearrow topic cre'; "
        "COMP_POINT=${#COMP_LINE}; _firearrow_completion firearrow cre topic; echo ${COMPREPLY[@]}"
    )
    ran = subprocess.run(
        ["bash", "-c", asked], env=environment, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert ran.stdout.split() == ["create"], ran.stderr


def test_fish(environment: dict[str, str]) -> None:
    install("fish", environment)
    ran = subprocess.run(
        ["fish", "-c", "complete -C 'firearrow topic cre'"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert ran.stdout.split()[0] == "create", ran.stderr


def test_zsh(environment: dict[str, str]) -> None:
    install("zsh", environment)
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-i"], env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        os.write(ours, b"PS1='ready> '\n")
        read_until(ours, b"\rready> ")  # the prompt, not the echo of what was typed
        os.write(ours, b"firearrow topic cre\t")
        read_until(ours, b"\x07")  # typer's script for zsh only loads itself at the first Tab
        os.write(ours, b"\t")
        read_until(ours, b"ate ")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def read_until(descriptor: int, wanted: bytes) -> None:
    seen = b""
    until = time.monotonic() + SECONDS
    while wanted not in seen:
        assert time.monotonic() < until, seen
        if select.select([descriptor], [], [], 1)[0]:
            seen += os.read(descriptor, 4096)
