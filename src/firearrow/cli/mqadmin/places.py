"""The brokers that options name: the broker of ``-b``, or those of the cluster of ``-c``."""

from collections.abc import Awaitable, Callable

from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, usage_needed


async def masters(session: Session, given: OptionValues) -> list[str]:
    """Return the broker of -b, else the masters of the cluster of -c; print the usage if neither is given."""
    return _named(given) or (await session.cluster()).masters(given.text("c"))


async def members(session: Session, given: OptionValues) -> list[str]:
    """Return the broker of -b, else all members of the cluster of -c; print the usage if neither is given."""
    return _named(given) or (await session.cluster()).members(given.text("c"))


def _named(given: OptionValues) -> list[str]:
    if given.has("b"):
        return [given.text("b")]
    return [] if given.has("c") else usage_needed()


async def headed(session: Session, given: OptionValues) -> list[tuple[str, str]]:
    """Return (headline, address) of the broker of -b, else of all members of the cluster of -c, slaves by master."""
    if given.has("b"):
        return [(f"============{given.text('b')}============", given.text("b"))]
    found = []
    for master, slaves in (await session.cluster()).ranks(given.text("c")).items() if given.has("c") else ():
        found.append((f"============Master: {master}============", master))
        found += [(f"============My Master: {master}=====Slave: {slave}============", slave) for slave in slaves]
    return found


async def repeat(session: Session, given: OptionValues, act: Callable[[], Awaitable[None]]) -> None:
    """Do something once; with -i again and again, with so many seconds between."""
    while True:
        await act()
        if not given.has("i"):
            return
        await session.pause(given.number("i"))
