"""Delivery of messages: numbered, acknowledged, over ZeroMQ sockets or in memory."""
