"""Every artifact that the tests stand on, and how each is made.

`servers-VERSION`    jars of the name server and the broker: 5.5.0; 4.9.7, the newest complete set of 4.9; 5.5.1, whose
                     broker was published without a name server, a client and tools: these are 5.5.0's
`clients-VERSION`    jars of the client and the tools, 5.5.0 and 4.9.8
`java-VERSION`       our Java programs compiled against those
`filter-VERSION`     our Java program that asks Apache's filter, compiled against the servers' jars
`go`                 our Go program with the stock Go client
`rust`               our Rust program with the stock Rust client; made only when it is named, because it takes long
`cel-vectors`        the conformance vectors of CEL's specification
`node`               our JavaScript program beside ali-ons
`cpp`                our Python program beside the wheel that holds the C++ client
`object-store`       moto, a server that speaks S3, for our Python program in front of it
`s3a`                the jars by which Spark's Hadoop reads and writes S3

Where packages come from is the business of each tool's own settings: no address stands here, and no lock file
is kept.
"""

import inspect
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from judges.install.cache import Artifact, cache_root
from judges.install.toolchain import run_tool

SERVER_VERSIONS = ("5.5.0", "4.9.7")
POP_VERSION = "5.5.1"
"""The version whose broker judges pop: it mends two losses of check-points that 5.5.0 has."""
JAVA_CLIENT_VERSIONS = ("5.5.0", "4.9.8")
GO_CLIENT = "v2.1.2"
CEL_VECTORS = "v0.25.3"
NODE_CLIENT = "3.12.0"
CPP_WHEEL = "0.4.4"
OBJECT_STORE = ("moto[s3,glue]==5.2.5", "flask", "flask-cors")
HADOOP = "3.5.0"
"""The version of the jars that pyspark brings."""
AWS_SDK = "2.35.4"
"""As the pom of hadoop-aws has it, which asks for a bundle of 686 MB."""
AWS_PARTS = ("s3", "s3-transfer-manager", "sts")
IN_SPARK = "io.netty,org.slf4j,commons-codec,commons-logging"
"""Groups that Spark has itself, in other versions."""
RUST_CLIENT = "1.0.0"
"""As `programs/rust/Cargo.toml` has it."""
JAVA_RELEASE = "17"
DOWNLOADS = 16

BY_NAME_ONLY = frozenset({"rust"})
"""Artifacts that take so long to make that they are made only when they are named."""
RUST_TARGET = "rust-target"
"""The directory in which Cargo keeps what it compiled, below the root of the cache: a change of our program compiles
that alone."""

# Which jar set serves mqadmin beside servers of a version.
TOOLS_VERSION = {"5.5.1": "5.5.0", "5.5.0": "5.5.0", "4.9.7": "4.9.8", "4.9.8": "4.9.8"}

_SERVERS = ("namesrv", "broker")
_OF_POP_VERSION = ("broker", "common", "controller", "remoting", "store")
"""The parts that were published of `POP_VERSION`."""
_OF_DEFAULT = ("acl", "auth", "client", "container", "filter", "namesrv", "srvutil", "tiered-store", "tools")
"""The parts that servers of `POP_VERSION` take from the first of `SERVER_VERSIONS`."""
_CLIENTS = ("client", "tools")

_PROGRAMS = Path(__file__).parent.parent / "programs"


def _dependencies(parts: tuple[str, ...], version: str) -> str:
    return "".join(
        f"<dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-{part}</artifactId>"
        f"<version>{_version_of(part, version)}</version></dependency>"
        for part in parts
    )


def _version_of(part: str, version: str) -> str:
    return SERVER_VERSIONS[0] if version == POP_VERSION and part in _OF_DEFAULT else version


def _jars(name: str, parts: tuple[str, ...], version: str) -> Artifact:
    pinned = _dependencies((*_OF_POP_VERSION, *_OF_DEFAULT), version) if version == POP_VERSION else ""
    pom = (
        "<project><modelVersion>4.0.0</modelVersion><groupId>firearrow.judges</groupId>"
        f"<artifactId>{name}</artifactId><version>{version}</version>"
        + (f"<dependencyManagement><dependencies>{pinned}</dependencies></dependencyManagement>" if pinned else "")
        + f"<dependencies>{_dependencies(parts, version)}</dependencies></project>"
    )

    def build(directory: Path, log: Path) -> None:
        (directory / "pom.xml").write_text(pom)
        goal = ["dependency:copy-dependencies", "-DoutputDirectory=.", "-DincludeScope=runtime"]
        run_tool(["mvn", "-B", "-q", f"-Dmaven.artifact.threads={DOWNLOADS}", *goal], directory, log)

    return _artifact(f"{name}-{version}", (pom,), build)


@cache
def server_jars(version: str) -> Artifact:
    """The jars of Apache's name server and broker."""
    return _jars("servers", _SERVERS, version)


@cache
def client_jars(version: str) -> Artifact:
    """The jars of Apache's client and tools, as a user of the client would have them."""
    return _jars("clients", _CLIENTS, version)


def _artifact(name: str, inputs: tuple[str | bytes, ...], build: Callable[[Path, Path], None]) -> Artifact:
    """Return an artifact that is made again if its inputs or its build function change."""
    return Artifact(name, (inspect.getsource(build), *inputs), build)


def _sources(language: str, pattern: str) -> dict[str, bytes]:
    root = _PROGRAMS / language
    found = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob(pattern))}
    assert found, f"no {pattern} below {root}: the package is not whole"
    return found


def _inputs(sources: dict[str, bytes], *more: str) -> tuple[str | bytes, ...]:
    return (*more, *(part for name, content in sources.items() for part in (name, content)))


def _write(sources: dict[str, bytes], directory: Path) -> None:
    for name, content in sources.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


@cache
def classes(version: str) -> Artifact:
    """Our Java programs, compiled against one version of the client."""
    sources = _sources("java", "*.java")
    library = client_jars(version)

    def build(directory: Path, log: Path) -> None:
        class_path = f"{library.install()}/*"
        _write(sources, directory / "source")
        words = ["javac", "--release", JAVA_RELEASE, "-nowarn", "-proc:none", "-cp", class_path, "-d", "classes"]
        run_tool([*words, *(f"source/{name}" for name in sources)], directory, log)
        # A jar, because the JVM makes no archive of classes over a class path with directories.
        shutil.make_archive(str(directory / "judge"), "zip", directory / "classes")
        (directory / "judge.zip").rename(directory / "judge.jar")

    return _artifact(f"java-{version}", _inputs(sources, library.path.name, JAVA_RELEASE), build)


@cache
def filter_judge(version: str) -> Artifact:
    """The program that asks Apache's SQL92 filter, compiled against the jars of a server."""
    sources = _sources("filter", "*.java")
    library = server_jars(version)

    def build(directory: Path, log: Path) -> None:
        _write(sources, directory)
        words = ["javac", "--release", JAVA_RELEASE, "-nowarn", "-proc:none", "-cp", f"{library.install()}/*"]
        run_tool([*words, "-d", ".", *sources], directory, log)

    return _artifact(f"filter-{version}", _inputs(sources, library.path.name, JAVA_RELEASE), build)


@cache
def go_judge() -> Artifact:
    """The Go program; `go.sum` is made beside it, never kept."""
    sources = _sources("go", "*.go")
    module = f"module judge\n\ngo 1.21\n\nrequire github.com/apache/rocketmq-client-go/v2 {GO_CLIENT}\n"

    def build(directory: Path, log: Path) -> None:
        _write(sources, directory)
        (directory / "go.mod").write_text(module)
        # -mod=mod adds to go.sum what the build needs; `go mod tidy` would fetch the tests' modules too.
        words = ["go", "build", "-mod=mod", "-p", "2", "-trimpath", "-ldflags=-s -w", "-o", "judge", "."]
        run_tool(words, directory, log, {"GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"})

    return _artifact("go", _inputs(sources, module), build)


@cache
def rust_judge() -> Artifact:
    """The Rust program: 10 to 40 minutes from nothing, seconds when `RUST_TARGET` is filled."""
    sources = {**_sources("rust", "*.rs"), **_sources("rust", "Cargo.toml")}

    def build(directory: Path, log: Path) -> None:
        _write(sources, directory)
        target = cache_root() / RUST_TARGET
        run_tool(["cargo", "build", "-j", "2"], directory, log, {"CARGO_TARGET_DIR": str(target)})
        shutil.copy(target / "debug" / "judge", directory)

    return _artifact("rust", _inputs(sources), build)


@cache
def cel_vectors() -> Artifact:
    """The conformance vectors of CEL's specification, from its Go module: ``*.textproto``."""

    def build(directory: Path, log: Path) -> None:
        modules = directory / "modules"
        environment = {"GOFLAGS": "-modcacherw", "GOWORK": "off", "GOMODCACHE": str(modules)}
        run_tool(["go", "mod", "download", f"cel.dev/expr@{CEL_VECTORS}"], directory, log, environment)
        for path in (modules / "cel.dev" / f"expr@{CEL_VECTORS}" / "tests" / "simple" / "testdata").glob("*.textproto"):
            shutil.copy(path, directory)
        shutil.rmtree(modules)

    return _artifact("cel-vectors", (CEL_VECTORS,), build)


@cache
def node_judge() -> Artifact:
    """The JavaScript program and the packages it needs."""
    sources = _sources("node", "*.js")
    package = f'{{"name": "judge", "private": true, "dependencies": {{"ali-ons": "{NODE_CLIENT}"}}}}\n'

    def build(directory: Path, log: Path) -> None:
        _write(sources, directory)
        (directory / "package.json").write_text(package)
        run_tool(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], directory, log)

    return _artifact("node", _inputs(sources, package), build)


@cache
def cpp_judge() -> Artifact:
    """The Python program and the wheel with the C++ library."""
    sources = _sources("cpp", "*.py")
    wheel = f"rocketmq=={CPP_WHEEL}"

    def build(directory: Path, log: Path) -> None:
        _write(sources, directory)
        words = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", ".", wheel]
        run_tool(words, directory, log)

    return _artifact("cpp", _inputs(sources, wheel), build)


@cache
def object_store() -> Artifact:
    """The packages of our program that serves S3: in a directory of their own, since moto brings boto3."""

    def build(directory: Path, log: Path) -> None:
        run_tool([sys.executable, "-m", "pip", "install", "--target", ".", *OBJECT_STORE], directory, log)

    return _artifact("object-store", OBJECT_STORE, build)


@cache
def s3a_jars() -> Artifact:
    """The jars that Spark's own readers and writers need for ``s3a://``."""
    sdk = "software.amazon.awssdk"
    bundle = f"<exclusions><exclusion><groupId>{sdk}</groupId><artifactId>bundle</artifactId></exclusion></exclusions>"
    wanted = [("org.apache.hadoop", "hadoop-aws", HADOOP, bundle), *((sdk, part, AWS_SDK, "") for part in AWS_PARTS)]
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{left_out}</dependency>"
        for group, name, version, left_out in wanted
    )
    pom = (
        "<project><modelVersion>4.0.0</modelVersion><groupId>firearrow.judges</groupId><artifactId>s3a</artifactId>"
        f"<version>{HADOOP}</version><dependencies>{dependencies}</dependencies></project>"
    )

    def build(directory: Path, log: Path) -> None:
        (directory / "pom.xml").write_text(pom)
        goal = ["dependency:copy-dependencies", "-DoutputDirectory=.", "-DincludeScope=runtime"]
        goal += [f"-DexcludeGroupIds={IN_SPARK}"]
        run_tool(["mvn", "-B", "-q", f"-Dmaven.artifact.threads={DOWNLOADS}", *goal], directory, log)

    return _artifact("s3a", (pom, IN_SPARK), build)


def _each(make: Callable[[str], Artifact], versions: tuple[str, ...]) -> list[Artifact]:
    return [make(version) for version in versions]


def all_artifacts() -> dict[str, Artifact]:
    """Every artifact by name."""
    return {artifact.name: artifact for lane in lanes() for artifact in lane}


def lanes() -> list[list[Artifact]]:
    """Artifacts in the order in which to make them, side by side; Maven's local repository bears one at a time."""
    java = [
        *_each(server_jars, (*SERVER_VERSIONS, POP_VERSION)),
        *_each(client_jars, JAVA_CLIENT_VERSIONS),
        *_each(classes, JAVA_CLIENT_VERSIONS),
        *_each(filter_judge, SERVER_VERSIONS),
        s3a_jars(),
    ]
    return [java, [go_judge(), cel_vectors()], [node_judge(), cpp_judge(), object_store()], [rust_judge()]]
