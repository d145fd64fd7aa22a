"""What acts, in the order of the path: schedule, claim, deliver, settle; worker is the loop over them.

Beside them: heads (what becomes of a head, and what follows it), gates (what is held, and let go), ahead (what is
reserved before it is due); lanes, room and rest (where to claim from, how much, and when again), sharing, scout and
turns (who is next in a backlog), pool (who runs what is claimed), leases (how it stays claimed), passes (what came of
it); destinations, limits, directory and parking (how much goes where, and what is down), reach (which brokers can be
reached), loading (what is loaded before anything is claimed for it), intake (what comes in over one); put_schedule,
declared and replan (how schedules come and change); put_users, follow_users and import_users (how users come and
change, and what has not started follows them); admin, schedules, users, targets and keys (what people do to events,
schedules, users, targets and keys), dead_letters (what they do to many at once).
"""
