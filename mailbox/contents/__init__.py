"""What stands in messages, written and read: forms, marks, results of tools, proofs of identity."""
