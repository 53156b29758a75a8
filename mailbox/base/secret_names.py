"""Which variables of an environment hold a secret, by their names or by what they hold. Pure.

Such variables are withheld from commands. A name counts by its words (`DB_PASS`, `pgPassword`,
`GITHUB_PAT`), so `PATH`, `PWD` and `SSH_ASKPASS` do not. A value counts where it carries a password
of its own: in an address, in a connection string, as a private key.
"""

import re

_ANYWHERE = re.compile(r"KEY|SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|CONN(?:ECTION)?_?STR", re.I)
# Words that say so at the end of a name, before a stage or a number.
_LAST = frozenset(
    {
        "PASS",
        "PASSES",
        "PASSCODE",
        "PSWD",
        "PW",
        "PWD",
        "CRED",
        "CREDS",
        "DSN",
        "DSNS",
        "JWT",
        "PAT",
    }
    | {"PATS", "SAS", "COOKIE", "COOKIES", "AUTH", "AUTHORIZATION", "BEARER", "SALT", "PEPPER"}
    | {"OTP", "TOTP", "PIN", "NETRC", "HTPASSWD"}
)
_STAGES = frozenset(
    {"DEV", "PROD", "PRODUCTION", "STAGING", "STAGE", "TEST", "QA", "LIVE", "LOCAL", "DEFAULT"}
    | {"BASE64", "B64", "OLD", "NEW", "URL", "URI", "FILE", "VALUE", "READONLY", "RO", "RW"}
)
_OPEN = frozenset({"PWD", "OLDPWD"})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IN_ADDRESS = re.compile(r"://[^\s/@:]{0,200}:[^\s/@]{1,500}@")
_IN_STRING = re.compile(
    r"(?:^|[;?&\s])(?:password|passwd|pwd|pass|accountkey|sharedaccesskey|sig|secret|"
    r"api_?key|access_?token|token)\s{0,3}=\s{0,3}[^;&\s]",
    re.IGNORECASE,
)
_PRIVATE_KEY = "-----BEGIN "
_LOOKED_AT = 20_000  # characters of a value


def holds_secret(name: str, value: str) -> bool:
    """True if a command should not get this variable."""
    if name in _OPEN:
        return False
    return names_secret(name) or carries_secret(name, value[:_LOOKED_AT])


def names_secret(name: str) -> bool:
    """True for a name that says it."""
    if _ANYWHERE.search(name):
        return True
    words = [word.upper() for word in _WORDS.findall(name)]
    while len(words) > 1 and (words[-1] in _STAGES or words[-1].isdigit()):
        words.pop()
    return bool(words) and words[-1] in _LAST


def carries_secret(name: str, value: str) -> bool:
    """True for a value with a password in it; that of a proxy is needed to reach out at all."""
    if "://" in value and _IN_ADDRESS.search(value):
        return not name.upper().endswith("_PROXY")
    return value.startswith(_PRIVATE_KEY) or ("=" in value and bool(_IN_STRING.search(value)))
