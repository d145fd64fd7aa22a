"""Ids that sort by the time they were made (UUIDv7)."""

import random
import time


def new_id() -> str:
    """48 bits of milliseconds, 12 of the fraction of one, 62 of luck (reseeded by Python after a fork)."""
    millis, rest = divmod(time.time_ns(), 1_000_000)
    value = f"{millis:012x}7{rest * 4096 // 1_000_000:03x}{0x8000000000000000 | random.getrandbits(62):016x}"
    return f"{value[:8]}-{value[8:12]}-{value[12:16]}-{value[16:20]}-{value[20:]}"
