"""A saved request whose project is in another folder now: `swarm resume RUN -C DIR`."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from msgspec.structs import replace

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.path_rules import is_within
from swarm.roles.config.layers.config_loader import LoadedConfig
from swarm.roles.rules.rule_loader import load_layer_rules

from ....agents.moved_team import moved_policy
from ....parts.copies.copy_folder import CopyFolder
from ....request.run_request import RunRequest, with_items
from ....runs.folder_moves import find_move, moved
from ....runs.paths import RunPaths, find_user_paths
from ....runs.project_mark import why_doubtful
from .command_settings import find_run_commands
from .hook_settings import find_run_hooks
from .skill_settings import find_run_skills


def move_request(here: RunPaths, request: RunRequest, folder: Path) -> RunRequest:
    """The saved request, with its paths where they are now; says what is in doubt, and what stays.

    Raises UsageError: agents of the run have copies of the old folder, the new one lies in it, or
    holds it as before.
    """
    if names := ", ".join(_agents_with_copies(here)):
        raise UsageError(
            f"{names} worked in a copy of {request.cwd}, and a copy cannot be carried to another "
            f"folder: name the folder as before (or make a link there), take over what the copies "
            f"hold with `swarm merge {short_id(here.folder.name)}`, and begin a new run"
        )
    move = find_move(request.cwd, str(folder))
    if is_within(move.now, move.before):
        raise UsageError(
            f"{folder} lies in {move.before}, where this run worked: it cannot go there; move the "
            "project out of that folder, or begin a new run"
        )
    if is_within(move.before, move.now) and Path(move.before).is_dir():
        raise UsageError(
            f"{folder} holds {move.before}, where this run worked and which is still there: its "
            f"agents would get more than they had. Leave out -C, or begin a new run in {folder}"
        )
    if doubt := why_doubtful(request.began_in, str(folder)):
        _warn(f"{folder} may be another project than the one in which this run worked: {doubt}")
    click.echo(f"swarm: the run goes on in {folder} (before: {request.cwd})", err=True)
    moves = (move,)
    inherited = replace(request.inherited, moves=(*request.inherited.moves, move))
    if request.fan_out is not None and request.fan_out.agents.sandbox is not None:
        items = moved_policy(request.fan_out.agents.sandbox, moves)
        request = with_items(request, lambda one: replace(one, sandbox=items))
    return replace(
        request,
        cwd=str(folder),
        inherited=inherited,
        add_dirs=tuple(moved(one, moves) for one in request.add_dirs),
        sandbox=moved_policy(request.sandbox, moves),
    )


def with_project_parts(
    request: RunRequest, loaded: LoadedConfig, environment: Mapping[str, str]
) -> RunRequest:
    """The request with rules, hooks, skills and commands as they count in the new folder.

    Those of a project count only where it is trusted, as at the start of a run there.
    """
    places = find_user_paths(dict(environment))
    rules = load_layer_rules(loaded.layers, loaded.requirements)
    hooks = find_run_hooks(loaded, places.config)
    commands = find_run_commands(loaded, places.config)
    skills = find_run_skills(loaded, places.config, cwd=Path(request.cwd), memory=places.state)
    found = (*loaded.warnings, *rules.warnings, *hooks.warnings, *skills.warnings)
    for warning in dict.fromkeys((*found, *commands.warnings)):
        _warn(warning)
    return replace(
        request,
        rules=rules.rules,
        inherited=replace(request.inherited, hooks=hooks.hooks),
        commands=commands.commands,
        skill_set=skills.chosen,
    )


def _agents_with_copies(here: RunPaths) -> Iterator[str]:
    try:
        yield from (one.path for one in CopyFolder(here.copies, here.copy_trees).agents())
    except (OSError, ValueError) as error:
        raise UsageError(f"the copies of this run cannot be read: {error}") from error


def _warn(text: str) -> None:
    click.echo(f"swarm: warning: {text}", err=True)
