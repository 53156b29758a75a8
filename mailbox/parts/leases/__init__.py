"""What of leases travels: settings, rules for agents, requests, replies, the record of an end."""
