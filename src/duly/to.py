"""Where events go, in one place: ``from duly import to``, then ``target=to.nats("orders.due")``.

The names are those of the channels, and most are those of libraries too. So they are no names of ``duly`` itself:
``from duly import redis`` would hide the library. ``nats``, ``webhook`` and ``http`` are, as the targets most in use.
"""

from duly.decide.targets.brokers import celery, kafka, nats, rabbitmq, redis
from duly.decide.targets.targets import http, webhook

__all__ = ["celery", "http", "kafka", "nats", "rabbitmq", "redis", "webhook"]
