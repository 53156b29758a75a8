"""An account as a provider's source of keys, and the table `[login.NAME]` of a sign-in.

Neither holds a secret: a gateway reads what was stored under the account's name.
"""

from typing import Literal

from ...protocol.values.base import Value


class LoginTable(Value, forbid_unknown_fields=True):
    """`[login.NAME]`: a sign-in with OAuth, for one provider. `form` fills what is left out."""

    form: str = ""  # `chatgpt`: the endpoints and habits of that service
    provider: str = ""
    issuer: str = ""
    client_id: str = ""
    scopes: tuple[str, ...] = ()
    authorization_endpoint: str = ""  # "": as the issuer's metadata says
    token_endpoint: str = ""
    revocation_endpoint: str = ""
    device_authorization_endpoint: str = ""
    # `standard`: RFC 8628; `usercode`: a code whose answer is an authorization code
    device_flow: Literal["standard", "usercode"] = "standard"
    device_token_endpoint: str = ""  # of `usercode`
    device_page: str = ""  # of `usercode`: where the person enters the code
    device_redirect: str = ""  # of `usercode`
    ports: tuple[int, ...] = ()  # of the redirect; (): any free one
    redirect_host: Literal["127.0.0.1", "localhost"] = "127.0.0.1"
    redirect_path: str = "/callback"
    parameters: dict[str, str] = {}  # further ones of the authorization address
    refresh_body: Literal["form", "json"] = "form"
    base_url: str = ""  # where the account's requests go; "": to the provider's own address
    headers: dict[str, str] = {}  # of the account's requests; `{account_id}` is filled in
    account_claim: tuple[str, ...] = ()  # path of the account's id in the claims of the ID token
    workspaces: tuple[str, ...] = ()  # account ids that count; (): any
    workspace_parameter: str = ""  # how the authorization address names them
    max_age_s: int = 0  # of an access token whose end nobody says; 0: until it is refused


class AccountSource(Value):
    """The account that a provider's key comes from."""

    name: str  # `openai`, `openai@work`
    provider: str  # whose address, wire and models it has
    folder: str  # of the store
    login: LoginTable | None = None  # with which it was signed in; None: a key
    methods: Literal["any", "key", "login"] = "any"  # `forced_login_method`
    workspaces: tuple[str, ...] = ()  # `forced_chatgpt_workspace_id`

    @property
    def command(self) -> str:
        """What a person types to sign in again."""
        return f"swarm login {self.name.partition('@')[2] or self.name}"
