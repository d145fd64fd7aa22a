"""Turns a missing record into `NotFound`. A record of another tenant counts as missing."""

from typing import Protocol, TypeVar

from duly.errors import NotFound


class Owned(Protocol):
    """A record that belongs to a tenant."""

    @property
    def tenant(self) -> str: ...


T = TypeVar("T", bound=Owned)


def require_found(noun: str, record: T | None, wanted: str, tenant: str | None) -> T:
    """The record, if it exists and belongs to *tenant*, where one is given; otherwise raises NotFound. *wanted* is the
    name or id that the caller used."""
    if record is None or (tenant is not None and record.tenant != tenant):
        raise NotFound(f"there is no {noun} {wanted}" + (f" in tenant {tenant!r}" if tenant else ""))
    return record
