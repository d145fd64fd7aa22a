"""A PostgreSQL database as an ordinary application has it: its user owns it, and may create no roles."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.servers import create_database


@dataclass(frozen=True)
class ModestDatabase:
    url: str  # for the user
    admin: str  # for a superuser
    user: str
    role: str  # for DULY_API_ROLE: nobody has created it

    @property
    def options(self) -> dict[str, Any]:
        """For a Duly on this database."""
        return {"database_url": self.url, "api_role": self.role}

    def as_admin(self, sql: str) -> list[tuple[Any, ...]]:
        """Run SQL, as an administrator would."""
        with psycopg.connect(self.admin, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def modest_database(server: str) -> Iterator[ModestDatabase]:
    luck = f"{random.getrandbits(48):x}"
    database, user, role = f"duly_modest_{luck}", f"modest_{luck}", f"api_{luck}"
    admin = create_database(server, database)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {user} LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB NOBYPASSRLS".encode())
        connection.execute(f"ALTER DATABASE {database} OWNER TO {user}".encode())
        try:
            yield ModestDatabase(admin.replace("postgres@", f"{user}@"), admin, user, role)
        finally:
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())
            connection.execute(f"DROP ROLE IF EXISTS {role}".encode())
            connection.execute(f"DROP ROLE {user}".encode())
