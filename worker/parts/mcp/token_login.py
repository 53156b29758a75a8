"""A login with a server over HTTP that says why it is refused, and knows its tokens."""

import httpx2

from swarm.mailbox.base.redact import Redactor


class TokenLogin(httpx2.Auth):
    """What puts a token on requests."""

    def __init__(self) -> None:
        self.redactor = Redactor(())  # knows every token that was used: it may come back
        self.fault = ""  # why the server refused the last request that it refused
