"""The command line of a Java program out of an installed jar set.

Two sets of flags. Quick: the client compiler alone and the serial collector, so that a server is up in
seconds; never measure against it. Measured: the JVM's own choice of compilers and G1 with a fixed heap, as a
server is run in earnest. Quick programs also start from an archive of loaded classes when `archives` has made
one.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judges.install.artifacts import classes, client_jars, server_jars
from judges.install.cache import Artifact
from judges.install.toolchain import tool

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
MEASURED = ("-XX:+UseG1GC",)
ARCHIVE_NAME = "classes.jsa"
OURS = "judge."

# 4.9.7's broker reaches into the JDK's buffers; 5.5.0 does not mind being allowed to.
OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


@dataclass(frozen=True)
class JavaProgram:
    """A main class of a jar set, in one role."""

    version: str
    role: str
    main: str
    heap: tuple[str, ...]

    @property
    def parts(self) -> tuple[Artifact, ...]:
        """The parts of a Java program: the jars of a server, or those of a client and a program of ours over them."""
        if self.main.startswith(OURS):
            return client_jars(self.version), classes(self.version)
        return (server_jars(self.version),)

    def class_path(self) -> str:
        """Every jar by name, in one order: an archive of classes is good for exactly one class path."""
        return os.pathsep.join(str(jar) for part in self.parts for jar in sorted(part.install().glob("*.jar")))

    def archive(self) -> Artifact:
        """The archive of its loaded classes; `archives` fills it, and a JVM ignores one that is not its own."""
        made_from = (str(part.path) for part in self.parts)
        java = os.path.realpath(tool("java"))
        return Artifact(f"cds-{self.version}-{self.role}", (*made_from, java, self.main), _refuse)

    def command(
        self,
        home: Path,
        arguments: Sequence[str] = (),
        flags: Sequence[str] = (),
        measured_heap: Sequence[str] | None = None,
    ) -> list[str]:
        """The words that start it, with `home` in place of the user's directory."""
        words = [tool("java"), *OPENED, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", *flags]
        if measured_heap is not None:
            words += [*MEASURED, *measured_heap]
        else:
            words += [*QUICK, *self.heap, *self._shared(flags)]
        return [*words, "-cp", self.class_path(), self.main, *arguments]

    def _shared(self, flags: Sequence[str]) -> list[str]:
        archive = self.archive()
        if "-XX:+RecordDynamicDumpInfo" in flags or not archive.installed:
            return []
        return [f"-XX:SharedArchiveFile={archive.path / ARCHIVE_NAME}"]


def _refuse(_directory: Path, _log: Path) -> None:
    raise AssertionError("an archive of classes is made by make_archives")
