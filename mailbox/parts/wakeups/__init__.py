"""What of wake-ups travels: requests, replies, records, what people see and take back."""
