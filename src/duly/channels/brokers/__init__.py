"""Delivery to brokers and task queues, and commands that come from one."""
