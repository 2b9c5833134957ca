"""The garbage collector never walks the objects that a server keeps; cycles are found all the same."""

import subprocess
import sys

KEPT = """
import asyncio, gc
from firearrow.runtime import garbage_collector as garbage

looked_at = []

def note(phase, looked):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(generation=number)) for number in range(looked["generation"] + 1)))

async def main():
    garbage.settle()
    gc.callbacks.append(note)
    kept = [[number] for number in range(300_000)]
    assert len(kept) == 300_000
    print(max(looked_at), len(looked_at))

asyncio.run(main())
"""

CYCLES = """
import asyncio, gc, weakref
from firearrow.runtime import garbage_collector as garbage

class Node:
    pass

def cycle():
    node = Node()
    node.itself = node
    return node

async def main():
    growth = garbage.Growth()
    growth.look()
    node = cycle()
    gc.freeze()
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is not None, "it is out of sight"
    growth.look()
    assert gone() is not None and growth.looks == 1, "nothing has grown"
    grown = [[number] for number in range(2_000_000)]
    growth.look()
    assert gone() is None and growth.looks == 2, "all was looked at"
    del grown

asyncio.run(main())
print("found")
"""


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_look_is_at_more_than_some_thousand_objects() -> None:
    most, looks = map(int, _run(KEPT).split())
    assert looks > 10
    assert most < 50_000, "what stays was walked again"


def test_a_cycle_out_of_sight_is_found_when_memory_has_doubled() -> None:
    assert _run(CYCLES) == "found\n"
