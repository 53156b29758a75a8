"""Checks AWS signatures as the service does: from what arrived, and the secret of the key's owner.

It shares no code with the product. `problem` is what the service would say; "" if all is well.
"""

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta

FORM = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)"
    r"/aws4_request, SignedHeaders=(?P<names>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})\Z"
)
LAST_S = timedelta(minutes=5)  # how far the clocks may be apart
PLAIN = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class AwsVerifier:
    """Knows the keys of its accounts: id → (secret, session token or "")."""

    def __init__(self, keys, region, service, now=None):
        self.keys, self.region, self.service, self.now = keys, region, service, now

    def problem(self, method, target, headers, body):
        """Headers by name in lower case."""
        found = FORM.match(headers.get("authorization", ""))
        if found is None:
            return "MissingAuthenticationToken"
        if found["id"] not in self.keys:
            return "UnrecognizedClientException: The security token in the request is invalid."
        secret, token = self.keys[found["id"]]
        if headers.get("x-amz-security-token", "") != token:
            return "UnrecognizedClientException: another session token"
        names = found["names"].split(";")
        if names != sorted(names) or not {"host", "x-amz-date"} <= set(names):
            return "IncompleteSignature"
        if token and "x-amz-security-token" not in names:
            return "IncompleteSignature: the session token is not signed"
        if (found["region"], found["service"]) != (self.region, self.service):
            return "SignatureDoesNotMatch: Credential should be scoped to another region or service"
        date = headers["x-amz-date"]
        moment = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(moment - (self.now or datetime.now(UTC))) > LAST_S or date[:8] != found["day"]:
            return "SignatureDoesNotMatch: Signature expired"
        wanted = self.signature(secret, found, date, (method, target, headers, body))
        return "" if wanted == found["signature"] else "SignatureDoesNotMatch"

    def signature(self, secret, found, date, request):
        method, target, headers, body = request
        path, _, query = target.partition("?")
        lines = [method, escaped(without_dots(path), "/"), sorted_query(query)]
        names = found["names"].split(";")
        lines += [f"{name}:{re.sub(' +', ' ', headers[name].strip())}" for name in names]
        lines += ["", found["names"], hashlib.sha256(body).hexdigest()]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        scope = f"{found['day']}/{found['region']}/{found['service']}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}"
        of_day = mac(b"AWS4" + secret.encode(), found["day"])
        of_service = mac(mac(of_day, found["region"]), found["service"])
        return mac(mac(of_service, "aws4_request"), text).hex()


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def escaped(text, kept=""):
    signs = (chr(byte) for byte in text.encode())
    return "".join(s if s in PLAIN or s in kept else f"%{ord(s):02X}" for s in signs)


def without_dots(path):
    steps = []
    for step in path.split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in {"", "."}:
            steps.append(step)
    end = "/" if path.endswith("/") and steps else ""
    return "/" + "/".join(steps) + end


def sorted_query(query):
    """Its pairs are encoded already, as they were sent."""
    pairs = [pair if "=" in pair else f"{pair}=" for pair in query.split("&") if pair]
    return "&".join(sorted(pairs, key=lambda pair: pair.split("=", 1)))
