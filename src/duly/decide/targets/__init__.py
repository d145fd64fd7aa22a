"""Decisions about targets: what one may say, which addresses are open, and how secrets are written."""
