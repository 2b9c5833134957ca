"""Clients of the sources end with each test; brokers of everybody."""

from collections.abc import Iterator

import pytest

from firearrow.spark.link import close_links
from tests.interop.client.conftest import broker, java

__all__ = ["broker", "java"]


@pytest.fixture(autouse=True)
def _links_end_with_the_test() -> Iterator[None]:
    yield
    close_links()
