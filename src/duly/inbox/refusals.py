"""The reasons for refusing a delivery, with the HTTP status to answer. Duly retries after 401, 403, 404, 408, 425, 429
and 5xx; any other refusal makes the event a dead letter, which can be replayed."""

from typing import ClassVar

from duly.errors import DulyError


class Refused(DulyError):
    """The delivery must not be trusted or processed. Answer with ``status``, and with the message for debugging: it
    contains no secret."""

    status: ClassVar[int] = 400


class BadSignature(Refused):
    """The signature was not made with any of the secrets."""

    status = 401


class Stale(Refused):
    """The signature is valid, but too old or in the future. Duly signs each attempt with its own time, so the next
    attempt may pass."""

    status = 425


class TooLarge(Refused):
    """The body has more bytes than this receiver reads."""

    status = 413


class Malformed(Refused):
    """The signature is valid, but the body is not one that Duly sends; or the body did not arrive completely."""
