"""An MCP server over HTTP that wants a login, and its authorization server: one process, loopback.

Usage: oauth_server_program.py RECORD [OPTION=VALUE …]. It prints its port, writes one line of JSON
for each request to RECORD, and answers until it is ended. Options: `lifetime` (seconds of a token),
`refresh` (`no`: none is given; `once`: only the first works), `scope` (what a call needs beyond the
login's), `metadata` (the address of the resource's metadata that the challenge names), `issuer`,
`iss` (of the answer), `resource`, `endpoint` (of tokens), `secret` (register clients with one),
`size` (bytes that the metadata is padded with), `coding` (of the metadata's answer), `echo`.
"""

import base64
import hashlib
import json
import secrets
import socket
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import jwt
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

TOOL = {
    "name": "whoami", "description": "says whose token it is",
    "inputSchema": {"type": "object", "properties": {}},
}  # fmt: skip


class Authority:
    """Clients, codes and tokens; and the server that they are for."""

    def __init__(self, record: Path, options: dict[str, str], base: str) -> None:
        self.record, self.options, self.base = record, options, base
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, tuple[float, str]] = {}  # until when, and the scopes
        self.refresh: dict[str, str] = {}
        self.refreshed = 0

    def note(self, what: str, **facts: object) -> None:
        with self.record.open("a") as file:
            file.write(json.dumps({"what": what, **facts}) + "\n")

    async def resource_metadata(self, request: Request) -> Response:
        self.note("metadata", path=request.url.path)
        facts = {
            "resource": self.options.get("resource", f"{self.base}/mcp"),
            "authorization_servers": [self.options.get("issuer", self.base)],
            "padding": "x" * int(self.options.get("size", "0")),
        }
        coding = self.options.get("coding")
        return JSONResponse(facts, headers={"Content-Encoding": coding} if coding else None)

    async def server_metadata(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.options.get("named_issuer", self.base),
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": self.options.get("endpoint", f"{self.base}/token"),
                "registration_endpoint": f"{self.base}/register",
                "revocation_endpoint": f"{self.base}/revoke",
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def register(self, request: Request) -> Response:
        given = await request.json()
        self.note("registered", redirect=given["redirect_uris"], name=given["client_name"])
        secret = {"client_secret": "c" * 40, "token_endpoint_auth_method": "client_secret_post"}
        made = {"client_id": "client-1", "redirect_uris": given["redirect_uris"]}
        return JSONResponse(made | (secret if "secret" in self.options else {}), status_code=201)

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.note("authorized", scope=asked.get("scope", ""), resource=asked.get("resource", ""))
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"]}
        if "iss" in self.options:
            answer["iss"] = self.options["iss"]
        if "deny" in self.options:
            answer = {"error": "access_denied", "state": asked["state"]}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", status_code=302)

    async def token(self, request: Request) -> Response:
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        if form["grant_type"] == "refresh_token":
            return self._refreshed(form)
        if form["grant_type"] == "client_credentials":
            return self._for_program(request, form)
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or proof != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        return self._given(asked.get("scope", ""))

    def _for_program(self, request: Request, form: dict[str, str]) -> Response:
        """By the secret `c…` of the client `program`, or a proof that is signed with its key."""
        proof, basic = form.get("client_assertion", ""), base64.b64encode(b"program:" + b"c" * 40)
        claims = jwt.decode(proof, options={"verify_signature": False}) if proof else {}
        self.note("program", claims=claims, scope=form.get("scope", ""))
        known = request.headers.get("authorization") == f"Basic {basic.decode()}"
        if not known and claims.get("sub") != "program":
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        return self._given(form.get("scope", ""))

    def _refreshed(self, form: dict[str, str]) -> Response:
        self.note("refreshed", resource=form.get("resource", ""), secret="client_secret" in form)
        scope = self.refresh.pop(form["refresh_token"], None)
        self.refreshed += 1
        if scope is None or (self.options.get("refresh") == "once" and self.refreshed > 1):
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        return self._given(scope)

    def _given(self, scope: str) -> Response:
        access, refresh = (f"{kind}-{secrets.token_urlsafe(24)}" for kind in ("access", "refresh"))
        lifetime = float(self.options.get("lifetime", "3600"))
        self.access[access] = (time.time() + lifetime, scope)
        self.note("token", access=access, refresh=refresh)
        facts = {"access_token": access, "token_type": "bearer", "expires_in": int(lifetime)}
        if scope:
            facts["scope"] = scope
        if self.options.get("refresh") != "no":
            self.refresh[refresh] = scope
            facts["refresh_token"] = refresh
        return JSONResponse(facts)

    async def revoke(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode())
        self.note("revoked", known=form["token"][0] in self.refresh)
        self.access.clear()
        return Response()

    async def serve(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        until, scope = self.access.get(token, (0.0, ""))
        if until < time.time():
            return self._challenge(401)
        asked = await request.json()
        needed = self.options.get("scope", "")
        if asked["method"] == "tools/call" and needed and needed not in scope.split():
            return self._challenge(403, f'error="insufficient_scope", scope="{needed}"')
        return self._answer(asked, token)

    def _challenge(self, status: int, more: str = "") -> Response:
        place = f"{self.base}/.well-known/oauth-protected-resource/mcp"
        words = [f'resource_metadata="{self.options.get("metadata", place)}"', more]
        value = f"Bearer {', '.join(one for one in words if one)}"
        return Response(status_code=status, headers={"WWW-Authenticate": value})

    def _answer(self, asked: dict[str, object], token: str) -> Response:
        self.note("request", method=asked["method"])
        if "id" not in asked:
            return Response(status_code=202)
        said = f"hello {token}" if "echo" in self.options else "hello"
        results: dict[object, object] = {
            "initialize": {
                "protocolVersion": self.options.get("version", "2025-06-18"),
                "capabilities": {"tools": {}}, "serverInfo": {"name": "subject", "version": "1"},
            },
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": said}]},
        }  # fmt: skip
        if asked["method"] not in results:
            error = {"code": -32601, "message": "no such method"}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        return JSONResponse(
            {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
        )


def main() -> None:
    """Listen on a free port, say which, and serve."""
    record, *words = sys.argv[1:]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        options = dict(word.split("=", 1) for word in words)
        options = {name: value.replace("PORT", str(port)) for name, value in options.items()}
        one = Authority(Path(record), options, f"http://127.0.0.1:{port}")
        metadata = "/.well-known/oauth-protected-resource"
        app = Starlette(
            routes=[
                Route(metadata, one.resource_metadata),
                Route(f"{metadata}/mcp", one.resource_metadata),
                Route("/.well-known/oauth-authorization-server", one.server_metadata),
                Route("/register", one.register, methods=["POST"]),
                Route("/authorize", one.authorize),
                Route("/token", one.token, methods=["POST"]),
                Route("/revoke", one.revoke, methods=["POST"]),
                Route("/mcp", one.serve, methods=["GET", "POST", "DELETE"]),
            ]
        )
        print(port, flush=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
