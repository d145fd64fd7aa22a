"""The acts on a target: disable, enable, probe, limit."""

from collections.abc import Awaitable, Callable

from duly.dashboard.acts.act import Act, Field, HttpCall, Later, Values, add_act
from duly.dashboard.pages import Pages
from duly.dashboard.times import short
from duly.dashboard.visit import Receipt, Visit, part
from duly.decide.targets.rates import show_rate
from duly.errors import Invalid, Problem
from duly.records.target import Known, Target


def add_acts(pages: Pages) -> None:
    """Adds the pages of all acts on a target."""
    acts: dict[str, Callable[[Visit], Awaitable[Act]]] = {
        "disable": disable,
        "enable": enable,
        "probe": probe,
        "limit": limit,
        "test": test,
    }
    for verb, prepare in acts.items():
        add_act(pages, f"/targets/{{name}}/{verb}", prepare)


async def _target(visit: Visit) -> Target:
    return await visit.own.targets.get(visit.named("name"), tenant=visit.tenant)


def _page(visit: Visit, target: Target) -> str:
    return visit.url(f"/targets/{part(target.name)}")


def _call(target: Target, verb: str, body: object = None, method: str = "POST") -> HttpCall:
    return HttpCall(method, f"/v1/targets/{part(target.name)}/{verb}", body)


async def disable(visit: Visit) -> Act:
    target = await _target(visit)

    async def run(visit: Visit, values: Values) -> Receipt:
        reason = values.get("reason") or None
        await visit.own.targets.disable(target.name, tenant=visit.tenant, by=visit.by, reason=reason)
        page = _page(visit, target)
        return Receipt(f"{target.name} is disabled: its events wait.", f"{page}#history", f"{page}/enable")

    return Act(
        title=f"Disable {target.name}",
        verb="Disable",
        what="Nothing is sent to it until somebody enables it. Its events wait, and none is lost.",
        fields=(Field("reason", "Note", help="Shown beside the target and its waiting events"),),
        command=lambda values: [
            "targets",
            "disable",
            target.name,
            *(["--reason", values["reason"]] if values.get("reason") else []),
        ],
        call=lambda values: _call(target, "disable", {"reason": values["reason"]} if values.get("reason") else None),
        run=run,
        back=_page(visit, target),
    )


async def enable(visit: Visit) -> Act:
    target = await _target(visit)

    async def run(visit: Visit, values: Values) -> Receipt:
        many = await visit.own.targets.enable(target.name, tenant=visit.tenant, by=visit.by)
        page = _page(visit, target)
        waited = "1 event that waited is" if many == 1 else f"{many:,} events that waited are"
        return Receipt(f"{target.name} is enabled; {waited} released.", f"{page}#history", f"{page}/disable")

    return Act(
        title=f"Enable {target.name}",
        verb="Enable",
        what="Its waiting events are sent at once, within its limits.",
        command=lambda _: ["targets", "enable", target.name],
        call=lambda _: _call(target, "enable"),
        run=run,
        back=_page(visit, target),
    )


async def probe(visit: Visit) -> Act:
    target = await _target(visit)

    async def run(visit: Visit, values: Values) -> Receipt:
        await visit.own.targets.probe(target.name, tenant=visit.tenant, by=visit.by)
        return Receipt(f"A worker tries {target.name} at its next poll.", f"{_page(visit, target)}#history")

    return Act(
        title=f"Probe {target.name}",
        verb="Probe",
        what="A worker sends one of the waiting events now, instead of when the back-off ends. If it is taken, the "
        "target is open again.",
        command=lambda _: ["targets", "probe", target.name],
        call=lambda _: _call(target, "probe"),
        run=run,
        back=_page(visit, target),
    )


async def limit(visit: Visit) -> Act:
    target = await _target(visit)
    known = target.known or Known(target.tenant, target.name)

    async def run(visit: Visit, values: Values) -> Receipt:
        concurrency, rate = _limits(values)
        await visit.own.targets.limit(target.name, concurrency=concurrency, rate=rate, tenant=visit.tenant, by=visit.by)
        page = _page(visit, target)
        return Receipt(f"The limits of {target.name} are changed.", f"{page}#history", f"{page}/limit")

    def command(values: Values) -> list[str]:
        concurrency, rate = _limits(values)
        given = [*(["--concurrency", str(concurrency)] if concurrency else []), *(["--rate", rate] if rate else [])]
        return ["targets", "limit", target.name, *(given or ["--none"])]

    def call(values: Values) -> HttpCall:
        concurrency, rate = _limits(values)
        given = {"concurrency": concurrency, "rate": rate}
        return _call(target, "limits", {name: value for name, value in given.items() if value is not None}, "PUT")

    return Act(
        title=f"Limit {target.name}",
        verb="Set the limits",
        what="An empty field is no limit.",
        fields=(
            Field("concurrency", "Deliveries at once, from each worker", "number", example="50"),
            Field("rate", "Deliveries in a time, from all workers together", example="10/s or 600/m"),
        ),
        values={
            "concurrency": str(known.concurrency or ""),
            "rate": "" if known.rate is None else show_rate(known.rate),
        },
        command=command,
        call=call,
        run=run,
        back=_page(visit, target),
    )


async def test(visit: Visit) -> Act:
    target = await _target(visit)

    async def run(visit: Visit, values: Values) -> Later:
        planned = await visit.own.targets.plan_test(target.name, tenant=visit.tenant)

        async def send() -> Receipt:
            came = await visit.own.duly.targets.send_test(planned, by=visit.by)
            status = "" if came.status is None else f", status {came.status}"
            error = f": {came.error}" if came.error else ""
            told = f"The test was {came.outcome}{status}, after {short(came.seconds)}{error}"
            return Receipt(told, f"{_page(visit, target)}#history", failed=came.outcome != "delivered")

        return send

    return Act(
        title=f"Send a test to {target.name}",
        verb="Send",
        what="It is signed like a delivery, and marked as a test. It counts for nothing, and cannot park the target.",
        command=lambda _: ["targets", "test", target.name],
        call=lambda _: _call(target, "test"),
        run=run,
        back=_page(visit, target),
    )


def _limits(values: Values) -> tuple[int | None, str | None]:
    written = values.get("concurrency", "").strip()
    if written and not (written.isascii() and written.isdigit()):
        raise Invalid([Problem("concurrency", f"expected a whole number, not {written!r:.50}")])
    return int(written) if written else None, values.get("rate", "").strip() or None
