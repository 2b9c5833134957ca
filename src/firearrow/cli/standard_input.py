"""Standard input as it comes: from a terminal, a pipe or a file, without a thread.

A terminal or pipe is read when the loop says that there is something, so that Ctrl-C interrupts the waiting and sends
go on while nobody types. A file is never waited for: the kernel refuses to watch one, and reading it does not block.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

CHUNK: Final = 256 * 1024


async def read_descriptor(descriptor: int) -> AsyncGenerator[bytes]:
    """What can be read, as it comes, until the end."""
    while True:
        await _readable(descriptor)
        data = os.read(descriptor, CHUNK)
        if not data:
            return
        yield data


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a file
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Lines without their ends; the last one may lack its end."""
    begun: list[bytes] = []
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        for other in others:
            yield b"".join(begun)
            begun = [other]
    if last := b"".join(begun):
        yield last


async def whole(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Everything, as one piece."""
    yield b"".join([chunk async for chunk in chunks])
