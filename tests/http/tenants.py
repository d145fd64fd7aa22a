"""Two tenants on one server: what each has, and whether anything of one is ever touched by the other."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from duly import Duly, Event, Rejected, cron, webhook
from duly.records.api_key import Scope
from tests.conftest import AnyTransaction
from tests.make import a_user
from tests.stores.rows import spelled

SECRET_KEY = "a key of at least thirty-two characters"
OWNED = (
    "events",
    "schedules",
    "users",
    "type_settings",
    "templates",
    "targets",
    "destinations",
    "api_keys",
    "requests",
)


@dataclass(frozen=True)
class Tenant:
    """What a tenant has, by what names it."""

    name: str
    keys: dict[str, str]  # by scope
    timer: str
    event: str
    letter: str
    schedule: str
    user: str
    user_key: str
    target: str
    template: str

    def path(self, template: str) -> str:
        """An address of the API, filled with what this tenant has."""
        named = {"timers": self.timer, "schedules": self.schedule, "targets": self.target, "users": self.user}
        named["templates"] = self.template
        subject = template.split("/")[2]
        event = self.letter if template.endswith(("replay", "discard")) else self.event
        id = event if subject == "events" else self.user
        return template.format(key=self.timer, name=named.get(subject, ""), id=id, type="birthday")

    def key(self, scope: str = "write") -> str:
        return f"Bearer {self.keys[scope]}"


def marker(tenant: str) -> str:
    """Stands in all that a tenant stores but its names: nobody else may ever see it."""
    return f"zyx{tenant}zyx"


async def settle(app: Duly, name: str) -> Tenant:
    """Give a tenant one thing of each kind."""
    own: dict[str, Any] = {"tenant": name}
    secret = marker(name)

    @app.on(f"{name}.rejected")
    async def reject(event: Event) -> Rejected:
        return Rejected(f"nobody wants {secret}")

    now = await app.store.now()
    keys = {scope.value: (await app.keys.create(f"{name} {scope}", scope=scope, **own)).secret for scope in Scope}
    target = await app.targets.put(
        f"{name}-target", f"https://hooks.example/{secret}", headers={"X-Marker": secret}, **own
    )
    await app.targets.limit(target.name, concurrency=3, **own)
    letter = await app.at(now, f"{name}.rejected", {"secret": secret}, correlation_id=secret, **own)
    await app.tick()
    timer = await app.at(
        datetime(2030, 1, 1, tzinfo=UTC), "greet", {"secret": secret}, key=f"{name}-timer", correlation_id=secret, **own
    )
    event = await app.at(datetime(2030, 1, 1, tzinfo=UTC), "greet", {"secret": secret}, **own)
    user = await app.users.add(
        **a_user(first_name=secret, key=f"{name}-user", attributes={"secret": secret}), tenant=name
    )
    await app.event_types.update("birthday", texts={"de": f"Hallo, {{first_name}}: {secret}"}, **own)
    schedule = await app.every(
        f"{name}-schedule",
        cron("0 9 * * *"),
        "report",
        payload={"secret": secret},
        target=webhook(target=target.name),
        **own,
    )
    template = await app.templates.put(f"{name}-template", type="report", payload={"secret": secret}, **own)
    assert timer.key is not None
    return Tenant(
        name, keys, timer.key, event.id, letter.id, schedule.name, user.id, f"{name}-user", target.name, template.name
    )


async def rows_of(app: Duly, tenant: Tenant) -> dict[str, list[Any]]:
    """All that the database has of a tenant, byte for byte."""
    async with app.store.begin() as tx:
        rows = {table: await _rows(app, tx, table, f"tenant = '{tenant.name}'") for table in OWNED}
        subjects = [str(row[0]) for table in ("events", "schedules", "users", "targets") for row in rows[table]]
        listed = ", ".join(f"'{subject}'" for subject in subjects)
        rows["journal"] = await _rows(app, tx, "journal", f"subject IN ({listed})")
    return rows


async def _rows(app: Duly, tx: AnyTransaction, table: str, condition: str) -> list[Any]:
    found = await tx.fetch(spelled(app.store, f"SELECT * FROM duly.{table} WHERE {condition}"))
    return sorted((tuple(row) for row in found), key=repr)
