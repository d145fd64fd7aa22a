"""Whom to measure. Each file has the workloads as functions of a database URL: insert, drain, lateness, idle."""
