"""Access control: API keys, tenants, and how much of the server each of them may use."""
