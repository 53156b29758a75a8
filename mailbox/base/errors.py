"""Base class of all errors raised on purpose, and the errors of the mailbox. Pure."""


class SwarmError(Exception):
    """Base class of all errors raised on purpose. Any other exception is a bug; the process ends.

    `exit_code` is what the command line returns when the error reaches it (1 failed, 2
    usage, 3 refused, 4 limit reached, 5 provider, 6 sandbox).
    """

    exit_code: int = 1


class UsageError(SwarmError):
    """A person's input (option, task file, configuration) is wrong; nothing was started."""

    exit_code = 2


class MailboxError(SwarmError):
    """The peer broke the protocol, or is gone."""


class PeerGone(MailboxError):
    """A message cannot reach this peer: it was never admitted, or its process has ended."""

    def __init__(self, peer: bytes) -> None:
        super().__init__(f"no live process answers to {peer!r}")
        self.peer = peer


class MessageTooLarge(MailboxError):
    """The sender's own message is over the limit; nothing was sent."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a message of {size_bytes} bytes is over the limit of {limit_bytes}")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class MalformedMessage(MailboxError):
    """The bytes are no message of this protocol version. The text says why, without the bytes."""
