"""What acts, in the order of the path: schedule, claim, deliver, settle; worker is the loop over them.

Beside them: heads (what becomes of a head, and what follows it), gates (what is held, and let go), ahead (what is
reserved before it is due), pool (who runs what is claimed); put_schedule, declared and replan (how schedules come and
change); admin and schedules (what people do to events and schedules).
"""
