from collections.abc import AsyncIterator

import pytest

from tests.receivers.obedient import Obedient


@pytest.fixture
async def receiver() -> AsyncIterator[Obedient]:
    """Whom webhooks are sent to."""
    async with Obedient() as receiver:
        yield receiver
