"""TLS interception of an inspected tunnel: TLS with the command, TLS with the server.

The proxy checks a server's certificate as the command would have; a server that fails the check is
not reached. The command sees the authority's certificate for exactly the host that it requested.
"""

import ssl

import trio

from .certificate_authority import CertificateAuthority, verifying_context
from .client_connection import HEAD_LIMIT_S, ClientConnection, ClientGone
from .connector import Unreachable

_HANDSHAKE_LIMIT_S = 10.0


class _ClientStream(trio.abc.Stream):
    """The tunnel's byte stream, including the bytes that were read ahead."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._client.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self._client.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._client.receive()

    async def aclose(self) -> None:
        await self._client.stream.aclose()


class CaTlsInterceptor:
    """A `TlsInterceptor` that uses the certificate authority."""

    def __init__(self, authority: CertificateAuthority) -> None:
        """Raises OSError, ssl.SSLError: this machine's own certificates cannot be read."""
        self._authority, self._verifying = authority, verifying_context()

    async def open(self, client: ClientConnection, host: str) -> ClientConnection:
        """The decrypted connection to the command. Raises ClientGone: it does not use TLS, or
        rejects the certificate.
        """
        context = self._authority.context_for(host)
        inner = trio.SSLStream(
            _ClientStream(client), context, server_side=True, https_compatible=True
        )
        try:
            with trio.fail_after(HEAD_LIMIT_S):
                await inner.do_handshake()
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            raise ClientGone from error
        return ClientConnection(inner, sock=client.sock)

    async def secure(self, server: trio.SocketStream, host: str) -> trio.abc.Stream:
        """TLS to the server; the caller closes `server`. Raises Unreachable."""
        stream = trio.SSLStream(
            server, self._verifying, server_hostname=host, https_compatible=True
        )
        try:
            with trio.fail_after(_HANDSHAKE_LIMIT_S):
                await stream.do_handshake()
        except trio.TooSlowError as error:
            raise Unreachable(f"{host} does not answer in TLS") from error
        except trio.BrokenResourceError as error:
            raise Unreachable(f"no TLS with {host}: {_why(error.__cause__)}") from error
        return stream


def _why(error: BaseException | None) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate cannot be trusted: {error.verify_message}"
        case ssl.SSLError():
            return str(error.reason or "no TLS")
        case _:
            return "it hung up"
