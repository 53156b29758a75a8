"""What a cloud asks of each request, and what a person of these tests has for it."""

import json
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support.aws_verifier import AwsVerifier

TOKEN_PATH = "/token"
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDLABORATORY000001",
    "AWS_SECRET_ACCESS_KEY": "lab/secret+of+nobody/0123456789abcdefghi",
    "AWS_SESSION_TOKEN": "lab-session-token/+=0123456789",
}
GOOGLE_TOKEN = "ya29.laboratory-token-0123456789"


class CloudAccess:
    """Checks requests. `status` is that of a refusal."""

    def __init__(self, access, aws=None):
        given = aws or AWS
        secret = given["AWS_SECRET_ACCESS_KEY"], given.get("AWS_SESSION_TOKEN", "")
        self.kind, self.status = access["kind"], 403 if access["kind"] == "aws" else 401
        self.tokens = {GOOGLE_TOKEN}
        self.lifetime_s = 3600
        self.asked = []  # assertions for which a token was given
        self.verifier = AwsVerifier(
            {given["AWS_ACCESS_KEY_ID"]: secret}, access.get("region"), access.get("service")
        )

    def problem(self, seen):
        headers = {name.lower(): value for name, value in seen.headers.items()}
        if self.kind == "aws":
            return self.verifier.problem(seen.method, seen.target, headers, seen.body)
        token = headers.get("authorization", "").removeprefix("Bearer ")
        return "" if token in self.tokens else "Request had invalid authentication credentials."

    def token(self, body):
        """Of Google's token end point, for a service account (RFC 7523)."""
        self.asked.append(parse_qs(body.decode())["assertion"][0])
        token = sorted(self.tokens)[-1]
        return {"access_token": token, "expires_in": self.lifetime_s, "token_type": "Bearer"}


def service_account(url):
    """The file of a service account whose tokens come from `url`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return json.dumps({
        "type": "service_account", "project_id": "lab", "private_key_id": "1",
        "private_key": pem.decode(), "client_email": "lab@lab.iam.gserviceaccount.com",
        "client_id": "1", "token_uri": f"{url}{TOKEN_PATH}",
    })  # fmt: skip
