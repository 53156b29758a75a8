"""What a run may cost: the ledger of grants, the treasury that answers the gateway, the hours."""
