"""Delivery by HTTP: signed webhooks, and requests that a target describes."""
