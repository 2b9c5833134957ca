"""Archives of loaded classes (the JVM's class data sharing), which take a second or two off the start of each JVM.

A small cluster is started once as the tests start it, one client sends and receives, and `jcmd` tells each JVM
to write down the classes it has loaded. A JVM that is not the one that wrote an archive ignores it, so an
archive can only help.
"""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from judges.install.java import ARCHIVE_NAME, JavaProgram
from judges.install.toolchain import run_tool
from judges.judge import Judge, JudgeProcess, java_judge_program
from judges.mqadmin import Mqadmin, admin_program
from judges.servers import ApacheBroker, ApacheNameServer, broker_program, name_server_program

RECORDING = ("-XX:+RecordDynamicDumpInfo",)
WARMING = 50

# Servers of a version, and the client that goes with them.
PAIRS = {"5.5.0": "5.5.0", "4.9.7": "4.9.8", "5.5.1": "5.5.0"}


def java_programs(servers: str) -> tuple[JavaProgram, ...]:
    """Name server, broker, mqadmin and Java client that go together."""
    judge = java_judge_program(PAIRS[servers])
    return name_server_program(servers), broker_program(servers), admin_program(servers), judge


def make_archives(servers: str) -> None:
    """Make what is missing of the archives of one server version and its client."""
    programs = java_programs(servers)
    if all(program.archive().installed for program in programs):
        return
    with ExitStack() as stack:
        names = stack.enter_context(ApacheNameServer(servers, flags=RECORDING))
        broker = stack.enter_context(ApacheBroker(servers, name_servers=[names.address], flags=RECORDING))
        mqadmin = stack.enter_context(Mqadmin(servers))
        process = stack.enter_context(JudgeProcess(f"java-{PAIRS[servers]}"))
        children = (names.child, broker.child, mqadmin.start(RECORDING).child, process.start(RECORDING).child)
        mqadmin.execute(f"topicList -n {names.address}")
        mqadmin.execute(f"topicRoute -n {names.address} -t {broker.create_topic('warm')}")
        _exchange(process.at(names.address))
        for program, child in zip(programs, children, strict=True):
            _dump(program, child.pid)


def _exchange(judge: Judge) -> None:
    sent = judge.send("warm", WARMING, mode="async", tags=["A"], keys=True)
    judge.send("warm", WARMING, mode="ordered", shards=4)
    judge.receive("warm", WARMING, expression="A", settle_ms=0).assert_exactly(sent)


def _dump(program: JavaProgram, pid: int) -> None:
    def build(directory: Path, log: Path) -> None:
        run_tool(["jcmd", str(pid), "VM.cds", "dynamic_dump", str(directory / ARCHIVE_NAME)], directory, log)

    replace(program.archive(), build=build).install()
