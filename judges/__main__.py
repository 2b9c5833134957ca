"""`python -m judges install [--only NAME ...]`: fetch and build what the tests need, once.

Without `--only` everything is made but what takes long: `rust` is made when it is named.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from firearrow.errors import FireArrowError
from judges.install.archives import PAIRS, java_programs, make_archives
from judges.install.artifacts import BY_NAME_ONLY, RUST_TARGET, all_artifacts, lanes
from judges.install.cache import Artifact, cache_root, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    names = list(all_artifacts())
    quick = [name for name in names if name not in BY_NAME_ONLY]
    parser = argparse.ArgumentParser(prog="python -m judges", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="fetch and build; what is there already is left alone")
    install.add_argument("--only", nargs="+", choices=names, default=quick, metavar="NAME", help=", ".join(names))
    install.add_argument("--no-archives", action="store_true", help="skip the archives that make JVMs start faster")
    commands.add_parser("clean", help="remove what an older version of this package made")
    commands.add_parser("list", help="show what there is and whether it is installed")
    chosen = parser.parse_args(arguments)
    if chosen.command == "list":
        return _list()
    if chosen.command == "clean":
        return _clean()
    return _install(chosen.only, archives=not chosen.no_archives)


def _install(names: Sequence[str], *, archives: bool) -> int:
    start = time.monotonic()
    try:
        with ThreadPoolExecutor(len(lanes())) as pool:
            for lane in [pool.submit(_walk, lane, names) for lane in lanes()]:
                lane.result()
        for servers, client in PAIRS.items() if archives else ():
            if {f"servers-{servers}", f"java-{client}"}.issubset(names):
                make_archives(servers)
    except FireArrowError as failure:
        say(str(failure))
        return 1
    say(f"all there after {time.monotonic() - start:.0f} s, below {cache_root()}")
    return 0


def _walk(lane: Sequence[Artifact], names: Sequence[str]) -> None:
    for artifact in lane:
        if artifact.name in names:
            artifact.install()


def _clean() -> int:
    archives = [program.archive() for servers in PAIRS for program in java_programs(servers)]
    current = {RUST_TARGET, *(artifact.path.name for artifact in (*all_artifacts().values(), *archives))}
    for path in cache_root().iterdir():
        name = path.name.removesuffix(".log").removesuffix(".lock")
        if name not in current:
            say(f"removing {path}")
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return 0


def _list() -> int:
    for name, artifact in all_artifacts().items():
        print(f"{name:14} {'installed' if artifact.installed else 'missing':10} {artifact.path}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
