"""The stored accounts, for `swarm login --status` and `doctor`. Shows no part of a key."""

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.part_keys import PartKeys
from swarm.roles.parts.accounts.stored_account import AccountStore, describe_account

from .account_providers import accounts_folder


class AccountLine(Value):
    """One account. `kind`: key, login; "" if it cannot be read."""

    account: str
    state: str
    usable: bool  # False: only a new login helps
    kind: str = ""
    kept_in: str = ""


def list_accounts(config: PartKeys) -> list[AccountLine]:
    """Every stored account, by name. A keyring may ask the person."""
    store = AccountStore(accounts_folder())
    forced = {"chatgpt": "login", "api": "key"}.get(config.forced_login_method or "")
    found: list[AccountLine] = []
    for name in store.secrets.names():
        try:
            kept = store.secrets.kept_in(name)
            account = store.read(name)
        except SwarmError as error:
            found.append(AccountLine(account=name, state=str(error), usable=False))
            continue
        if account is None:
            continue
        state = describe_account(account, kept)
        is_allowed = forced in {None, account.kind}
        if not is_allowed:
            state += ", not used: forced_login_method"
        usable = is_allowed and not account.ended
        found.append(
            AccountLine(
                account=name, kind=account.kind, state=state, kept_in=kept or "", usable=usable
            )
        )
    return found
