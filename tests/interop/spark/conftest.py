"""Clients of the sources end with each test."""

from collections.abc import Iterator

import pytest

from firearrow.spark.link import close_links


@pytest.fixture(autouse=True)
def _links_end_with_the_test() -> Iterator[None]:
    yield
    close_links()
