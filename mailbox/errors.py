"""The root of every error raised on purpose, and the errors of the post itself."""


class SwarmError(Exception):
    """Root of every error raised on purpose. Anything else is a bug and ends the process.

    `exit_code` is what the command line returns when the error reaches it (CLI.md: 1 failed,
    2 usage, 3 refused, 4 bound reached, 5 provider, 6 sandbox).
    """

    exit_code: int = 1


class UsageError(SwarmError):
    """A person's input (option, task file, configuration) is wrong; nothing was started."""

    exit_code = 2


class MailboxError(SwarmError):
    """The other side broke the protocol, or is gone."""


class PeerGone(MailboxError):
    """Mail cannot reach this peer: it was never admitted, or its process has ended."""

    def __init__(self, peer: bytes) -> None:
        super().__init__(f"no live process answers to {peer!r}")
        self.peer = peer


class MessageTooLarge(MailboxError):
    """A sender's own message is over the limit; nothing was sent."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a message of {size_bytes} bytes is over the limit of {limit_bytes}")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class MalformedMessage(MailboxError):
    """Bytes that are not a message of this protocol version. Carries why, never the bytes."""
