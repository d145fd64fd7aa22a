"""Constructors of targets: ``from duly import to``, then ``target=to.nats("orders.due")``.

They are named after the channels, and most of these names are those of libraries too. So most are not names of ``duly``
itself: ``from duly import redis`` would hide the library. ``nats``, ``webhook``, ``http`` and ``command`` are, because
they are used most.
"""

from duly.decide.targets.brokers import celery, kafka, nats, rabbitmq, redis
from duly.decide.targets.commands import command
from duly.decide.targets.targets import http, webhook

__all__ = ["celery", "command", "http", "kafka", "nats", "rabbitmq", "redis", "webhook"]
