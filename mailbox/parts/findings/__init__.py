"""What of findings travels: requests, replies, what agents are sent, the record."""
