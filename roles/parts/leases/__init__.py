"""The `[leases]` table."""
