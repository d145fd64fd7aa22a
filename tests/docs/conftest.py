import uuid

import pytest

from tests.servers import create_database


@pytest.fixture
def own_postgres_url(postgres_server: str) -> str:
    """An empty database for one example."""
    return create_database(postgres_server, f"docs_{uuid.uuid4().hex}")
