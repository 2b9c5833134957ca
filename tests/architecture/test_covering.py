"""The map from a module to tests that a reader who changes it can run (`covering`): directly, or one import further."""

from tests.architecture.covering import FURTHER, ROOT, coverage, direct, home, modules

ELSEWHERE = "tests/interop/"
"""Tests that need Apache's servers: no module may depend on them alone."""


def product() -> list[str]:
    """The modules that decide something: the product without its testing kit and without mere doors of packages."""
    return [
        name
        for name, path in modules().items()
        if name.startswith("firearrow.") and not name.startswith("firearrow.testing") and path.name != "__init__.py"
    ]


def covering_tests(name: str) -> list[str]:
    """The tests of a module that run without Apache's servers."""
    return [path for tests in coverage() for path in tests.get(name, []) if not path.startswith(ELSEWHERE)]


def test_a_test_imports_every_module_or_what_uses_it() -> None:
    bare = [name for name in product() if not covering_tests(name)]
    assert not bare, "write a test that imports these modules, or what uses them"


def test_tests_of_deeper_modules_are_there_and_needed() -> None:
    assert [path for paths in FURTHER.values() for path in paths if not (ROOT / path).is_file()] == []
    assert [name for name in FURTHER if name not in modules()] == []
    found = {name: covering_tests(name) for name in FURTHER}
    assert found == FURTHER, "the imports show tests of these modules: take them out of FURTHER"


def test_a_name_is_followed_through_the_doors_of_packages() -> None:
    assert home("firearrow:Producer") == "firearrow.client.producer.producer"
    assert home("firearrow.client:Producer") == "firearrow.client.producer.producer"
    assert home("asyncio:sleep") == ""


def test_a_command_line_covers_its_command() -> None:
    assert "firearrow.cli.consume" in direct("tests.integration.cli.test_consume")
