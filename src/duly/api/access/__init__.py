"""Who may ask, for which tenant, and how much: keys, tenants, budgets."""
