"""What of jobs travels: requests, replies, records."""
