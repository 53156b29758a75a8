"""Message types: closed unions of frozen structs, msgpack on sockets, JSON in the journal. Pure."""
