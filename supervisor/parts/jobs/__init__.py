"""Tables whose rows are worked through by agents."""
