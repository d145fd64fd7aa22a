"""Why a delivery is refused, and what to answer. Duly tries again after 408, 425, 429 and 5xx; any other refusal makes
the event a dead letter, which can be replayed."""

from typing import ClassVar

from duly.errors import DulyError


class Refused(DulyError):
    """Nothing of the delivery may be believed or done. Answer with ``status``, and with the message
    for whoever looks into it: it tells no secret."""

    status: ClassVar[int] = 400


class BadSignature(Refused):
    """Nobody who knows the secret signed this."""

    status = 401


class Stale(Refused):
    """Signed rightly, but too long ago or in the future. Duly signs each attempt anew, so the next one may pass."""

    status = 425


class TooLarge(Refused):
    """More bytes than this receiver reads."""

    status = 413


class Malformed(Refused):
    """Signed rightly, but nothing that Duly sends; or the body did not arrive whole."""
