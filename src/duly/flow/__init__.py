"""What acts, in the order of the path: schedule, claim, deliver, settle; worker is the loop over them.

Beside them: heads (what becomes of a head, and what follows it), gates (what is held, and let go), ahead (what is
reserved before it is due), room (how much to claim), pool (who runs what is claimed), passes (what came of it);
put_schedule, declared and replan (how schedules come and change); put_users, follow_users and import_users (how users
come and change, and what has not started follows them); admin, schedules and users (what people do to events, schedules
and users), dead_letters (what they do to many at once).
"""
