from tests.docs.conftest import own_postgres_url, postgres_variables

__all__ = ["own_postgres_url", "postgres_variables"]
