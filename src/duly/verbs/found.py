"""What a caller named: found, or `NotFound`. What belongs to another tenant is not there for this one."""

from typing import Protocol, TypeVar

from duly.errors import NotFound


class Owned(Protocol):
    """A record of a tenant."""

    @property
    def tenant(self) -> str: ...


T = TypeVar("T", bound=Owned)


def require_found(noun: str, record: T | None, wanted: str, tenant: str | None) -> T:
    """The record itself, if there is one and *tenant*, where it is given, has it. *wanted* says how it was named."""
    if record is None or (tenant is not None and record.tenant != tenant):
        raise NotFound(f"there is no {noun} {wanted}" + (f" in tenant {tenant!r}" if tenant else ""))
    return record
