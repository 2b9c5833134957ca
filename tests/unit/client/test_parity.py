"""The blocking client is the asynchronous one, name by name."""

import inspect

import pytest

from firearrow import blocking, client

CLASSES = ("Producer", "TransactionalProducer", "Transaction", "Consumer", "PullConsumer", "ReceivedMessage")
MADE_INSIDE = {"ReceivedMessage", "Transaction"}
"""Classes that users do not make themselves."""
RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}


def attributes(kind: type) -> dict[str, object]:
    """The attributes of a class, with those that consumers have in common."""
    shared = [base for base in kind.__bases__ if base.__name__ == "GroupConsumer"]
    return {name: value for each in (*shared, kind) for name, value in vars(each).items()}


def surface(kind: type) -> set[str]:
    names = set(attributes(kind)) | set(getattr(kind, "__slots__", ()))
    public = {name for name in names if not name.startswith("_") or name in RENAMED or name in RENAMED.values()}
    return {RENAMED.get(name, name) for name in public}


def test_the_packages_offer_the_same_names() -> None:
    assert set(blocking.__all__) == set(client.__all__)


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_has_a_twin(name: str) -> None:
    asynchronous, twin = surface(getattr(client, name)), surface(getattr(blocking, name))
    if name in ("Producer", "Consumer", "PullConsumer"):
        asynchronous |= {"settings"}
    assert asynchronous == twin


@pytest.mark.parametrize("name", CLASSES)
def test_twins_take_the_same_arguments(name: str) -> None:
    original, copy = getattr(client, name), getattr(blocking, name)
    for method, function in attributes(copy).items():
        if (method.startswith("_") and method != "__init__") or not inspect.isfunction(function):
            continue
        if name in MADE_INSIDE and method == "__init__":
            continue
        mine = inspect.signature(function).parameters
        theirs = inspect.signature(getattr(original, method)).parameters
        assert [(p.name, p.kind, p.default) for p in mine.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ], method


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_in_the_twin_has_to_be_awaited(name: str) -> None:
    for method, function in attributes(getattr(blocking, name)).items():
        assert not inspect.iscoroutinefunction(function), method
