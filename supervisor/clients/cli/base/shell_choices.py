"""Shell completion of runs, agents, roles, models, providers, profiles, features and servers.

Nothing is imported for it until a shell asks, and a failure completes nothing.
"""

import os
from collections.abc import Callable, Iterator
from itertools import islice

import click
from click.shell_completion import CompletionItem

_MOST = 50
_HELP_CHARS = 60


class KnownWords(click.types.StringParamType):
    """A text like any other, which a shell can complete."""

    def __init__(self, find: Callable[[click.Context], Iterator[tuple[str, str]]]) -> None:
        self._find = find

    def shell_complete(  # type: ignore[explicit-any]  # click's class has it
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The known words that begin so, with what each is."""
        try:
            fits = (one for one in self._find(ctx) if one[0].startswith(incomplete))
            return [CompletionItem(word, help=_short(about)) for word, about in islice(fits, _MOST)]
        except Exception:
            return []


def _short(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_HELP_CHARS]


def find_run_names(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The names and short ids of runs, newest first."""
    from swarm.mailbox.base.ids import short_id

    from ....runs.paths import find_user_paths
    from ....runs.run_list import RunFilter, list_runs

    for run in list_runs(find_user_paths(dict(os.environ)), RunFilter(limit=_MOST)):
        about = f"{run.state}: {run.title or run.task}"
        if run.name:
            yield run.name, about
        yield short_id(run.run_id), about


def find_agent_paths(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The agents of the run that stands on the line before."""
    from swarm.mailbox.protocol.records import AgentSpawned

    from ....journal.journal_reader import run_records
    from ....runs.paths import find_run, find_user_paths, paths_of_run

    places = find_user_paths(dict(os.environ))
    here = paths_of_run(places, find_run(places, ctx.params.get("run")))
    seen: set[str] = set()
    for record in run_records(here):
        body = record.body
        if isinstance(body, AgentSpawned) and body.path not in seen:
            seen.add(body.path)
            yield body.path, body.role


def find_profiles(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The profiles in the person's own configuration: their files, and its tables."""
    from ....runs.paths import find_user_paths

    for path in sorted(find_user_paths(dict(os.environ)).config.glob("*.config.toml")):
        yield path.name.removesuffix(".config.toml"), str(path)


def find_role_names(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The roles that this folder's project can use."""
    from swarm.roles.role_loader import load_roles

    from ..run_setup.run_settings import load_config_here

    loaded = load_config_here()
    for name, role in sorted(load_roles(loaded.layers, loaded.requirements).known.items()):
        yield name, role.description


def find_models(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The models of the catalogue."""
    from .models_process import query_models

    return ((line.name, line.about) for line in query_models("list"))


def find_providers(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """The providers whose models the catalogue has."""
    from .models_process import query_models

    names = {line.provider for line in query_models("list") if line.provider}
    return ((name, "") for name in sorted(names))


def find_features(ctx: click.Context) -> Iterator[tuple[str, str]]:
    from swarm.roles.config.layers.features import FEATURES

    return ((one.name, one.meaning) for one in FEATURES)


def find_mcp_servers(ctx: click.Context) -> Iterator[tuple[str, str]]:
    from ..run_setup.run_settings import load_config_here

    servers = load_config_here(lenient=True).config.mcp_servers
    return ((name, table.url or table.command or "") for name, table in sorted(servers.items()))


def find_named(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """What the group of commands on the line before deals with: a feature, a server, a role."""
    group = ctx.parent.info_name if ctx.parent is not None else None
    finders = {"features": find_features, "mcp": find_mcp_servers, "roles": find_role_names}
    find = finders.get(group or "")
    return find(ctx) if find is not None else iter(())


KNOWN_WORDS = {  # by the name of an argument or option
    "run": KnownWords(find_run_names),
    "runs": KnownWords(find_run_names),
    "agent": KnownWords(find_agent_paths),
    "role": KnownWords(find_role_names),
    "model": KnownWords(find_models),
    "provider": KnownWords(find_providers),
    "profile": KnownWords(find_profiles),
    "enable": KnownWords(find_features),
    "disable": KnownWords(find_features),
    "mcp": KnownWords(find_mcp_servers),
    "name": KnownWords(find_named),
}


def complete_known_words(params: list[click.Parameter]) -> None:
    """Let a shell complete those parameters whose values are known."""
    for one in params:
        known = KNOWN_WORDS.get(one.name or "")
        if known is not None and isinstance(one.type, click.types.StringParamType):
            setattr(one, "type", known)  # noqa: B010 - click's own field, not one of ours
