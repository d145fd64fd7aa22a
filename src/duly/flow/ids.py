"""Ids that sort by the time they were made (UUIDv7)."""

import random
import time

MILLISECOND = 1_000_000


def new_id() -> str:
    """48 bits of milliseconds, 12 of the fraction of one, 62 of luck (reseeded by Python after a fork)."""
    nanos = time.time_ns()
    millis = nanos // MILLISECOND
    fraction = (nanos - millis * MILLISECOND) * 4096 // MILLISECOND
    digits = "%012x7%03x%016x" % (millis, fraction, 0x8000000000000000 | random.getrandbits(62))  # noqa: UP031 - quicker
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
