from datetime import timedelta

import pytest

from duly.records.event import Status
from duly.records.specs import (
    Compare,
    DueBetween,
    Everything,
    ExecutedLate,
    InSeriesOf,
    InStatus,
    OfSeries,
    OfTenant,
    OfType,
    OfUser,
    OneOf,
    Spec,
    WithKey,
)
from duly.stores.filters.index_choice import index_choice
from duly.stores.filters.specs import compile_spec
from duly.stores.sqlite.codec import SPECS
from tests.make import START

ACME, OTHER, USUAL, FAILED = OfTenant("acme"), OfTenant("other"), OfTenant("default"), InStatus("FAILED")
SERIES, USER, TYPE = OfSeries("schedule:1"), OfUser("1"), OfType("greet")


@pytest.mark.parametrize(
    ("spec", "leading", "leaves"),
    [
        (Everything(), (), False),
        (DueBetween(), (), False),
        (TYPE, (), True),
        (USUAL, (), True),
        (ACME, (ACME,), False),
        (Everything() & ACME, (ACME,), False),
        (ACME & ACME, (ACME,), False),
        (ACME & OTHER, (OTHER,), True),
        (ACME & USUAL, (), True),
        (TYPE & ACME, (ACME,), True),
        (DueBetween(START) & ACME, (ACME,), True),
        (ExecutedLate(timedelta()) & ACME, (ACME,), True),
        (FAILED, (FAILED,), False),
        (FAILED & ACME, (ACME, FAILED), False),
        (FAILED & USUAL, (USUAL, FAILED), False),
        (FAILED & TYPE & ACME, (ACME, FAILED), True),
        (InStatus("PENDING") & ACME, (ACME,), True),
        (OneOf("status", (Status.FAILED,)) & ACME, (ACME,), True),
        (SERIES, (SERIES,), False),
        (SERIES & ACME, (SERIES,), True),
        (FAILED & SERIES & ACME, (SERIES,), True),
        (OfSeries("other") & ACME, (ACME,), True),
        (USER & ACME & TYPE, (USER,), False),
        (InSeriesOf("schedule:") & ACME, (ACME,), True),
        (WithKey("k") & ACME, (ACME,), True),  # the index of keys leaves out those that were cancelled
        (TYPE | ACME, (), True),
        (~ACME, (), True),
        ((TYPE | FAILED) & (~USER) & ACME, (ACME,), True),
        (Compare("tenant", "=", 7), (), True),
    ],
)
def test_the_part_of_a_spec_that_an_index_answers_comes_first(
    spec: Spec, leading: tuple[Spec, ...], leaves: bool
) -> None:
    found = index_choice(spec)
    assert compile_spec(found.spec, SPECS) in (compile_spec(each, SPECS) for each in _written(leading))
    assert found.leaves is leaves
    assert bool(found.also) is (leading in ((ACME,), (OTHER,)))


def _written(leading: tuple[Spec, ...]) -> list[Spec]:
    joined: Spec = Everything()
    for part in leading:
        joined &= part
    return [joined, *leading[:1]] if len(leading) == 1 else [joined]


def test_only_the_usual_tenant_has_no_index_of_its_own() -> None:
    assert [index_choice(each & TYPE).tenant for each in (ACME, USUAL, FAILED & ACME, Everything())] == [
        "acme",
        "default",
        None,
        None,
    ]
    assert (index_choice(ACME).also, index_choice(USUAL).also) == (" AND e.tenant <> 'default'", "")
