"""Closed unions of frozen structs: msgpack on a socket, JSON in the journal. No I/O anywhere."""
