"""Message protocol between swarm's processes, and its reliable delivery over ZeroMQ sockets."""
