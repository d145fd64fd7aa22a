"""Targets that are down, slow or limited, and brokers out of reach. Skip this while every target answers."""
