"""What acts, in the order of the path: schedule, claim, deliver, settle; worker is the loop over them.

Beside them: heads (what follows a head), ahead (what is reserved before it is due), pool (who runs what is claimed) and
admin (what people do to events).
"""
