"""Budgets: the ledger of grants, the service that answers the gateway, the deadlines."""
