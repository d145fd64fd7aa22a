"""Faults: a store that is away, a clock that was set, a worker that crashed, a transaction that stays open. Skip this
while none of them happens."""
