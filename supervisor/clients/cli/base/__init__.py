"""What commands share: printing, questions, the run that is meant."""
