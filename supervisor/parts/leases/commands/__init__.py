"""The commands of leases."""
