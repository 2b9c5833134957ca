"""Runs one fuzz target for a while and judges it.

A target is a function of bytes. It passes when, for every input, it raises nothing outside ``allowed``, takes no more
than 50 ms of CPU and no more than `costs` allows beside an ordinary send, and the process does not grow by more than
64 MiB. The last line on standard output is::

    target=fuzz_record executions=812345 seconds=20.0 exec_per_s=40617 worst_ms=0.4 rss_growth_mib=2.1 ...

with the figures of `costs`, and the exit status is 0, or 1 after a breach, with the input in hexadecimal on standard
error. libFuzzer ends a process without running Python's exit hooks, so the harness watches the time itself.
A target module looks like this::

    from fuzz.harness import instrumented, run

    with instrumented():
        from firearrow.record.decode import decode

    def target(data: bytes) -> None:
        decode(data)

    if __name__ == "__main__":
        run(target, seeds=[b"..."])

and runs by ``python -m fuzz.fuzz_record --seconds 20``; ``python -m fuzz`` runs them all.
"""

import argparse
import gc
import json
import operator
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from heapq import heappush, heapreplace
from pathlib import Path
from typing import NoReturn

from fuzz.found_inputs import USUAL, allowed_sends, found_of, keep

MAX_CPU_MS = 50.0
MAX_RSS_GROWTH_MIB = 64.0
_SUSPECT_MS = 1.0
_COSTLY = 16
"""The number of inputs with much CPU for their size that are kept, and measured at the end."""
_SETTLING_EXECUTIONS = 1000
_RSS_EVERY = 512
_PAGE_MIB = resource.getpagesize() / (1 << 20)

Target = Callable[[bytes], None]


def instrumented() -> AbstractContextManager[None]:
    """Around the imports of a target: makes libFuzzer see which branches of our code an input reaches.

    A no-op when the target is not run but imported, to be measured as it runs in a server.
    """
    spec = sys.modules["__main__"].__spec__
    if spec is None or not spec.name.startswith("fuzz.fuzz_"):
        return nullcontext()
    import atheris

    context: AbstractContextManager[None] = atheris.instrument_imports(include=["firearrow"])
    return context


def _leave_arrays_alone() -> None:
    """Keep comparisons of numpy arrays from atheris, which never frees their results.

    atheris 3.0 keeps one reference to the result of every comparison that it traces; for numbers and bytes that is one
    of two constants, for arrays a new array each time, about 1.4 KiB an execution of the columns' target. It learns
    nothing from such a comparison, so nothing is lost.
    """
    import atheris
    import numpy

    traced: Callable[..., object] = atheris._trace_cmp
    plain = [getattr(operator, name) for name in ("lt", "le", "eq", "ne", "gt", "ge")]  # as dis.cmp_op has them

    def compare(left: object, right: object, which: int, counter: int, is_constant: bool) -> object:
        if isinstance(left, numpy.ndarray) or isinstance(right, numpy.ndarray):
            return plain[which](left, right)
        return traced(left, right, which, counter, is_constant)

    atheris._trace_cmp = compare


def _rss_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MIB


class _Judge:
    def __init__(self, name: str, target: Target, allowed: tuple[type[Exception], ...], seconds: float) -> None:
        self.name = name
        self._target = target
        self._allowed = allowed
        self._started = time.perf_counter()
        self._deadline = self._started + seconds
        self._executions = 0
        self._worst_ms = 0.0
        self._costly: list[tuple[float, bytes]] = []  # a heap: CPU for what is allowed, input
        self._rss_at_rest = self._rss_growth = 0.0
        self.corpus = ""
        self.usual = b""
        self.keeps_worst = False
        self.leaves_arrays_alone = False

    def __call__(self, data: bytes) -> None:
        if self.leaves_arrays_alone:
            _leave_arrays_alone()  # not earlier: atheris puts its functions in place when it begins
            self.leaves_arrays_alone = False
        began = time.perf_counter()
        try:
            self._target(data)
        except self._allowed:
            pass
        except BaseException:  # noqa: BLE001 - anything else is what a fuzzer looks for
            self._end(data, "the target raised\n" + traceback.format_exc())
        ended = time.perf_counter()
        elapsed_ms = (ended - began) * 1000
        if elapsed_ms > self._worst_ms:
            self._look_at_time(data, elapsed_ms)
        if len(self._costly) < _COSTLY or elapsed_ms > self._costly[0][0] * allowed_sends(len(data)):
            self._keep_costly(data)
        self._executions += 1
        if self._executions % _RSS_EVERY == 0:
            self._look_at_memory(data)
        if ended > self._deadline:
            self._end()

    def _look_at_time(self, data: bytes, elapsed_ms: float) -> None:
        # A long wall time may be another process's doing: only CPU time, the best of three, convicts.
        if elapsed_ms > _SUSPECT_MS:
            elapsed_ms = min(self._cpu_ms(data) for _ in range(3))
        self._worst_ms = max(self._worst_ms, elapsed_ms)
        if elapsed_ms > MAX_CPU_MS:
            self._end(data, f"one input took {elapsed_ms:.1f} ms of CPU, more than {MAX_CPU_MS}")

    def _keep_costly(self, data: bytes) -> None:
        """Keep the input if its CPU is large for its size; a long wall time may be another process's doing."""
        if any(data == kept for _, kept in self._costly):
            return
        score = min(self._cpu_ms(data) for _ in range(2)) / allowed_sends(len(data))
        if len(self._costly) < _COSTLY:
            heappush(self._costly, (score, data))
        elif score > self._costly[0][0]:
            heapreplace(self._costly, (score, data))

    def _measured(self) -> tuple[str, str]:
        """Measure the costly inputs without counters of branches; return the figures of the worst, and the breach."""
        with tempfile.TemporaryDirectory(prefix="fuzz-costs-") as folder:
            (Path(folder) / USUAL).write_bytes(self.usual)
            for number, (_, data) in enumerate(self._costly):
                (Path(folder) / str(number)).write_bytes(data)
            command = [sys.executable, "-m", "fuzz.costs", self.name, folder]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            return "", f"the costly inputs could not be measured\n{ended.stderr}"
        worst = json.loads(ended.stdout)
        data = bytes.fromhex(worst.pop("input"))
        figures = " ".join(f"{key}={value}" for key, value in worst.items())
        if self.keeps_worst or worst["of_allowed"] > 1:
            keep(self.name, data)
        if worst["of_allowed"] <= 1:
            return figures, ""
        return figures, (
            f"an input of {len(data)} bytes took {worst['us']} us of CPU, {worst['of_allowed']} times what is allowed "
            f"beside an ordinary send of {worst['send_us']} us; it is kept in fuzz/found"
        )

    def _cpu_ms(self, data: bytes) -> float:
        began = time.thread_time()
        with suppress(*self._allowed):
            self._target(data)
        return (time.thread_time() - began) * 1000

    def _look_at_memory(self, data: bytes) -> None:
        rss = _rss_mib()
        if self._executions <= _SETTLING_EXECUTIONS:
            self._rss_at_rest = rss
            return
        if rss - self._rss_at_rest > MAX_RSS_GROWTH_MIB:
            gc.collect()  # cycles of a simulated world wait for the collector: only what stays convicts
            rss = _rss_mib()
        self._rss_growth = max(self._rss_growth, rss - self._rss_at_rest)
        if self._rss_growth > MAX_RSS_GROWTH_MIB:
            self._end(data, f"memory grew by {self._rss_growth:.1f} MiB, more than {MAX_RSS_GROWTH_MIB}")

    def _end(self, data: bytes = b"", breach: str = "") -> NoReturn:
        signal.setitimer(signal.ITIMER_REAL, 0)  # libFuzzer's alarm is about inputs, not about the measurement
        costs, costly = self._measured()
        breach = breach or costly
        if breach:
            print(f"{self.name}: {breach}\ninput: {data.hex()}", file=sys.stderr)
        seconds = time.perf_counter() - self._started
        print(
            f"target={self.name} executions={self._executions} seconds={seconds:.1f} "
            f"exec_per_s={self._executions / seconds:.0f} worst_ms={self._worst_ms:.1f} "
            f"rss_growth_mib={self._rss_growth:.1f} {costs}",
            flush=True,
        )
        sys.stderr.flush()
        shutil.rmtree(self.corpus, ignore_errors=True)
        os._exit(1 if breach else 0)


def run(
    target: Target,
    *,
    allowed: tuple[type[Exception], ...] | None = None,
    seeds: Iterable[bytes] = (),
    max_len: int = 16_384,
    compares_arrays: bool = False,
) -> NoReturn:
    """Fuzz ``target`` for the time that the command line gives, then print the figures and exit.

    ``allowed`` defaults to ProtocolError: what bad input from a peer may raise. ``seeds`` are inputs to start from.
    Say so if the code ``compares_arrays`` of numpy.
    """
    from firearrow.errors import ProtocolError

    arguments = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    arguments.add_argument("--seconds", type=float, default=20.0)
    arguments.add_argument("--seed", type=int, default=0, help="0 draws one")
    arguments.add_argument("--keep-worst", action="store_true", help="keep the input that took the most CPU")
    options = arguments.parse_args()
    import atheris

    judge = _Judge(Path(sys.argv[0]).stem, target, allowed or (ProtocolError,), options.seconds)
    judge.leaves_arrays_alone = compares_arrays
    judge.keeps_worst = options.keep_worst
    seeds = list(seeds)
    judge.usual = next(filter(None, seeds))
    judge.corpus = tempfile.mkdtemp(prefix="fuzz-")
    for number, seed in enumerate([*seeds, *found_of(judge.name)]):
        (Path(judge.corpus) / f"seed{number}").write_bytes(seed)
    flags = ["-verbosity=0", f"-max_len={max_len}", f"-seed={options.seed}", "-timeout=20"]
    flags.append(f"-artifact_prefix={judge.corpus}-")
    atheris.Setup([sys.argv[0], *flags, judge.corpus], judge)
    atheris.Fuzz()
    raise AssertionError("libFuzzer came back")
