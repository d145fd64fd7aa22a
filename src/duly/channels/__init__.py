"""The means of delivery, one file each. Webhooks and brokers will join the Python handler here."""
