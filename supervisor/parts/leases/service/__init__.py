"""The service of leases while a run lives."""
