"""`[notify]` names addresses and variables, never passwords; a list is Codex's program."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.notices.notice_messages import NotifySettings
from swarm.roles.parts.notices.notify_table import notify_settings, token_variables


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (NotifySettings(webhook="ftp://x/y"), "notify.webhook"),
        (NotifySettings(webhook="file:///etc/passwd"), "notify.webhook"),
        (NotifySettings(webhook="https://"), "notify.webhook"),
        (NotifySettings(webhook="https://a b"), "notify.webhook"),
        (NotifySettings(webhook="https://[::1/x"), "notify.webhook"),
        (NotifySettings(webhook="https://h:port/x"), "notify.webhook"),
        (NotifySettings(webhook="https://me:secret@h/x"), "no password"),
        (NotifySettings(ntfy="https://ntfy.sh/"), "names no topic"),
        (NotifySettings(command=(" ",)), "notify.command"),
    ],
)
def test_what_is_wrong_is_said_and_no_secret_repeated(table, words):
    with pytest.raises(UsageError, match=words) as error:
        notify_settings(table)
    assert "secret" not in str(error.value)


def test_a_list_is_the_program_that_runs_after_turns():
    settings = notify_settings(("tell", "me"))
    assert (settings.program, settings.sinks) == (("tell", "me"), ())


def test_sinks_are_those_that_are_configured():
    table = NotifySettings(ntfy="https://ntfy.sh/t", ntfy_token_env="T", terminal=True)
    assert notify_settings(table).sinks == ("terminal", "ntfy")
    assert token_variables(table) == ("T",)
