"""An issuer of accounts and the service that they are for, in one process on loopback.

Usage: issuer_program.py RECORD [OPTION=VALUE …]. It prints its port, writes one line of JSON for
each request to RECORD, and answers until it is ended. Options: `lifetime` (seconds of a token),
`workspace` (the account id of its ID tokens), `device` (`denied`, `late`, `off`, or how often it
answers that nobody has entered the code yet), `deny`, `iss` (of the answer), `named_issuer` (of the
metadata), `hold` and `slow` (a file: requests to the model fail, and refreshes are answered, when
it is there), `reuse` (`ends`: a rotated token that comes again ends the login), `refresh` (a status
that refreshes get, or `hang`: they are taken, rotated, and never answered), `revoked` (every access
token is refused, until the next refresh), `trouble` (a body in place of an error's JSON).
The file RECORD.options, if it is there, replaces the options from then on.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import socket
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

CLAIM = "https://api.openai.com/auth"


class Issuer:
    """Codes, tokens, and a model that says hello."""

    def __init__(self, record: Path, options: dict[str, str], base: str) -> None:
        self.record, self.given, self.base = record, options, base
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, float] = {}
        self.refresh: dict[str, bool] = {}  # True: it was rotated away
        self.asked = 0

    @property
    def options(self) -> dict[str, str]:
        changed = self.record.with_suffix(".options")
        return json.loads(changed.read_text()) if changed.exists() else self.given

    def note(self, what: str, **facts: object) -> None:
        with self.record.open("a") as file:
            file.write(json.dumps({"what": what, **facts}) + "\n")

    async def metadata(self, request: Request) -> Response:
        self.note("metadata", path=request.url.path)
        endpoints = {
            "issuer": self.options.get("named_issuer", self.base),
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "revocation_endpoint": f"{self.base}/revoke",
        }
        if self.options.get("device") != "off":
            endpoints["device_authorization_endpoint"] = f"{self.base}/device"
        return JSONResponse(endpoints)

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.note("authorized", **asked)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"]}
        if "iss" in self.options:
            answer["iss"] = self.options["iss"]
        if "deny" in self.options:
            answer = {"error": "access_denied", "state": asked["state"]}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", status_code=302)

    async def token(self, request: Request) -> Response:
        form = await self._fields(request)
        match form.get("grant_type"):
            case "refresh_token":
                return await self._refreshed(form)
            case "urn:ietf:params:oauth:grant-type:device_code":
                return self._by_device()
            case _:
                return self._by_code(form)

    async def _fields(self, request: Request) -> dict[str, str]:
        body = await request.body()
        if "json" in request.headers.get("content-type", ""):
            return json.loads(body)
        return {name: values[0] for name, values in parse_qs(body.decode()).items()}

    def _by_code(self, form: dict[str, str]) -> Response:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or proof != asked["code_challenge"]:
            return self._refuse("invalid_grant")
        if asked.get("redirect_uri", form["redirect_uri"]) != form["redirect_uri"]:
            return self._refuse("invalid_grant")
        return self._give()

    def _by_device(self) -> Response:
        self.asked += 1
        self.note("polled")
        device = self.options.get("device", "0")
        if device in {"denied", "late"}:
            return self._refuse("access_denied" if device == "denied" else "expired_token")
        if self.asked <= int(device):
            return self._refuse("slow_down" if self.asked == 1 else "authorization_pending")
        return self._give()

    async def _refreshed(self, form: dict[str, str]) -> Response:
        token = form["refresh_token"]
        self.note("refreshed", token=token, rotated=self.refresh.get(token))
        if "slow" in self.options:  # it answers when the file is there
            await self._until_there(self.options["slow"])
        match self.options.get("refresh"):
            case "hang":
                self.refresh[token] = True
                await asyncio.sleep(3600)
            case None:
                pass
            case status:
                text = self.options.get("trouble", "<html>try later</html>")
                return PlainTextResponse(text, status_code=int(status))
        if self.refresh.get(token) is not False:
            if self.options.get("reuse") == "ends":
                self.refresh.clear()
                self.access.clear()
            used = token in self.refresh
            return self._refuse("refresh_token_reused" if used else "invalid_grant")
        self.refresh[token] = True
        return self._give()

    async def _until_there(self, path: str) -> None:
        while not is_there(path):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)

    def _refuse(self, code: str) -> Response:
        return JSONResponse({"error": code}, status_code=400)

    def _give(self) -> Response:
        access, refresh = (f"{kind}-{secrets.token_urlsafe(24)}" for kind in ("access", "refresh"))
        lifetime = float(self.options.get("lifetime", "3600"))
        self.access[access], self.refresh[refresh] = time.time() + lifetime, False
        self.note("token", access=access, refresh=refresh)
        claims = {
            "email": "person@example.com",
            CLAIM: {"chatgpt_account_id": self.options.get("workspace", "space-1")},
        }
        return JSONResponse(
            {
                "access_token": access, "token_type": "bearer", "expires_in": lifetime,
                "refresh_token": refresh, "id_token": unsigned_token(claims),
            }
        )  # fmt: skip

    async def device(self, request: Request) -> Response:
        self.note("device", **await self._fields(request))
        if self.options.get("device") == "off":
            return Response(status_code=404)
        return JSONResponse(
            {
                "device_code": "d" * 30, "device_auth_id": "auth-1", "user_code": "ABCD-EFGH",
                "verification_uri": f"{self.base}/enter", "interval": 0, "expires_in": 60,
            }
        )  # fmt: skip

    async def device_token(self, request: Request) -> Response:
        """Of the `usercode` flow: the server makes the PKCE pair."""
        self.note("polled", **await self._fields(request))
        self.asked += 1
        device = self.options.get("device", "0")
        if device == "denied":
            return JSONResponse({"error": {"code": "access_denied"}}, status_code=403)
        if self.asked <= int(device):
            return Response(status_code=403 if self.asked % 2 else 404)
        verifier = secrets.token_urlsafe(32)
        digest = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        self.codes["device-code"] = {"code_challenge": challenge}
        return JSONResponse({"authorization_code": "device-code", "code_verifier": verifier})

    async def revoke(self, request: Request) -> Response:
        form = await self._fields(request)
        self.note("revoked", known=form["token"] in self.refresh)
        self.refresh.pop(form["token"], None)
        return Response(status_code=int(self.options.get("revoke", "200")))

    async def respond(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        seen = {name: request.headers.get(name, "") for name in ("chatgpt-account-id", "api-key")}
        is_known = self.access.get(token, 0.0) > time.time() or token == self.options.get("key")
        is_known = is_known or seen["api-key"] == self.options.get("key", "-")
        if "revoked" in self.options and token == json.loads(self.options["revoked"]):
            is_known = False
        query = request.url.query
        self.note(
            "request", token=token, known=is_known, query=query, path=request.url.path, **seen
        )
        if not is_known:
            return JSONResponse({"error": {"message": "bad token"}}, status_code=401)
        if "spent" in self.options and token == self.options.get("key"):
            error = {"type": "usage_limit_reached", "message": "spent", "resets_at": 4_000_000_000}
            return JSONResponse({"error": error}, status_code=429)
        if "hold" in self.options and not is_there(self.options["hold"]):
            self.note("held")  # and breaks, so that it is asked again
            await self._until_there(self.options["hold"])
            return PlainTextResponse("try again", status_code=500)
        message = {
            "type": "message", "role": "assistant", "id": "m1", "status": "completed",
            "content": [{"type": "output_text", "text": "hello from there"}],
        }  # fmt: skip
        done = {"id": "r1", "status": "completed", "output": [message], "usage": USAGE}
        events = [
            {"type": "response.output_item.done", "output_index": 0, "item": message},
            {"type": "response.completed", "response": done},
        ]
        text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
        headers = {
            "x-codex-primary-used-percent": "40", "x-codex-primary-window-minutes": "300",
        }  # fmt: skip
        return Response(text, media_type="text/event-stream", headers=headers)


USAGE = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}


def is_there(path: str) -> bool:
    return Path(path).exists()


def unsigned_token(claims: dict[str, object]) -> str:
    """A JSON web token whose signature is nothing."""
    parts = (json.dumps(one).encode() for one in ({"alg": "none"}, claims))
    encoded = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2ln"])


def main() -> None:
    """Listen on a free port, say which, and serve."""
    record, *words = sys.argv[1:]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        options = dict(word.split("=", 1) for word in words)
        one = Issuer(Path(record), options, f"http://127.0.0.1:{port}")
        routes = [
            Route("/.well-known/oauth-authorization-server", one.metadata),
            Route("/authorize", one.authorize),
            Route("/token", one.token, methods=["POST"]),
            Route("/device", one.device, methods=["POST"]),
            Route("/device-token", one.device_token, methods=["POST"]),
            Route("/revoke", one.revoke, methods=["POST"]),
            Route("/{rest:path}", one.respond, methods=["POST"]),
        ]
        print(port, flush=True)
        server = uvicorn.Server(
            uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off")
        )
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
