"""Targets that are down, slow or limited, and unreachable brokers. Skip this while every target answers."""
