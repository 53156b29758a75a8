"""The limits of several accounts are shown side by side, each under its account's name."""

from swarm.mailbox.protocol.gateway import RateLimits
from swarm.worker.gateway.open_providers import Allowances
from swarm.worker.gateway.rate_limit_headers import read_rate_limits


def told(percent):
    headers = {
        "x-codex-primary-used-percent": str(percent), "x-codex-primary-window-minutes": "300",
    }  # fmt: skip
    return RateLimits(windows=read_rate_limits(headers, 0.0))


def test_two_accounts_of_one_provider_keep_their_own_figures_and_names():
    said = []
    allowances = Allowances(said.append)
    allowances.announce_for("openai")(told(10))
    allowances.announce_for("openai@work")(told(90))
    assert [(one.name, one.used_percent) for one in said[-1].windows] == [
        ("primary", 10.0),
        ("openai@work primary", 90.0),
    ]
    allowances.announce_for("openai")(told(20))
    assert [one.used_percent for one in said[-1].windows] == [20.0, 90.0]
