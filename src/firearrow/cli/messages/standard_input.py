"""Standard input as it arrives: from a terminal, a pipe or a file, without a thread.

A terminal or pipe is read when the loop reports it readable, so that Ctrl-C interrupts the wait and sends go on while
no input arrives. A file is read at once: the kernel cannot watch files, and reading a file does not block.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

CHUNK: Final = 256 * 1024


async def read_descriptor(descriptor: int) -> AsyncGenerator[bytes]:
    """Yield the bytes of a descriptor as they arrive, until its end."""
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
    except PermissionError:  # a regular file
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield lines without their line feeds; the last line may lack one."""
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
    """Return all bytes in one piece."""
    yield b"".join([chunk async for chunk in chunks])
