"""What of memories travels: settings, requests, replies, the record of a doubt."""
