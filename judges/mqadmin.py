"""Apache's `mqadmin`, many commands in one JVM.

    with Mqadmin("5.5.0") as mqadmin:
        print(mqadmin.run("clusterList -n 127.0.0.1:9876"))

The first command pays for the start of a JVM, the next ones do not. A command that ends the process (many do
when they do not understand their options) is answered nevertheless, and the next one gets a new process.
"""

import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from firearrow.errors import FireArrowError
from judges.conversation import Conversation
from judges.install.artifacts import TOOLS_VERSION
from judges.install.java import JavaProgram
from judges.process import Child

COMMAND_SECONDS = 60.0
_QUIET = "<configuration><root level='OFF'/></configuration>\n"


class MqadminFailed(FireArrowError):
    """A command threw, or ended the process; the message is what it printed."""


@dataclass(frozen=True)
class AdminReply:
    """The output of a command on its two streams, and the exit status if it ended the process."""

    out: str
    err: str
    exit_status: int | None


class _Printed(msgspec.Struct):
    out: str
    err: str
    exited: bool


def admin_program(version: str) -> JavaProgram:
    """The command of the tools, beside servers of a version."""
    return JavaProgram(TOOLS_VERSION[version], "admin", "judge.Admin", ("-Xms32m", "-Xmx256m"))


class Mqadmin:
    """The tools of one version, in a process that starts with the first command."""

    def __init__(self, version: str = "5.5.0") -> None:
        self.version = version
        self.home = Path(tempfile.mkdtemp(prefix="firearrow-mqadmin-"))
        self.log = self.home / "output.log"
        (self.home / "conf").mkdir()
        (self.home / "conf" / "logback_tools.xml").write_text(_QUIET)
        self._conversation: Conversation | None = None

    def run(self, line: str) -> str:
        """Run one command line and return what it printed; raises when it threw or ended the process."""
        reply = self.execute(line)
        if reply.exit_status is not None or "Exception" in reply.err:
            raise MqadminFailed(f"mqadmin {line}: exit {reply.exit_status}\n{reply.out}\n{reply.err}")
        return reply.out

    def execute(self, line: str) -> AdminReply:
        """Run one command line, whatever comes of it."""
        conversation = self._conversation or self.start()
        request = {"verb": "run", "words": shlex.split(line)}
        printed = conversation.ask(request, _Printed, COMMAND_SECONDS)
        status = None
        if printed.exited:
            status = conversation.child.popen.wait()
            self._end()
        return AdminReply(printed.out, printed.err, status)

    def start(self, flags: tuple[str, ...] = ()) -> Conversation:
        """Start the process before the first command does."""
        words = admin_program(self.version).command(self.home, flags=flags)
        environment = {"ROCKETMQ_HOME": str(self.home)}
        # Some commands write files where they are run.
        child = Child(words, self.log, environment, piped_output=True, directory=self.home)
        self._conversation = Conversation(child)
        return self._conversation

    def close(self) -> None:
        """End the process and remove its home."""
        self._end()
        shutil.rmtree(self.home, ignore_errors=True)

    def _end(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
            self._conversation.child.kill()
            self._conversation = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
