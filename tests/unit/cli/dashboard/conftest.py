"""A Chromium for the tests of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.browser import CHROMIUM, Browser, open_browser


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests of a worker; each loads a page of its own."""
    if not CHROMIUM:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    async with open_browser() as made:
        yield made
