"""Reads a run's request as runs kept it before its fields were nested: a table of their places.

Pure. A field moves only if it stands at its former place, so what is written today stays as it is.
"""

from collections.abc import Iterator, Mapping
from typing import TypeGuard

Table = dict[str, object]
Place = tuple[str, ...]


def _below(*group: str, names: str) -> Iterator[tuple[Place, Place]]:
    """Fields that moved into a struct and kept their names."""
    yield from (((name,), (*group, name)) for name in names.split())


def _renamed(*group: str, names: Mapping[str, str]) -> Iterator[tuple[Place, Place]]:
    yield from (((former,), (*group, now)) for former, now in names.items())


_ITEMS = ("fan_out", "agents")
_ITEM_MODEL = (*_ITEMS, "model_settings")
_OF_MODELS = ("model", "effort", "summary", "verbosity")
# Former place → present place.
MOVED: dict[Place, Place] = dict(
    (
        *_below(
            "inherited",
            names="shell_environment resources moves prewarmed_sandbox hooks user_instructions "
            "guidance_files context allow_commit sandbox_required",
        ),
        *_below("model_settings", names="model provider fallback effort summary verbosity"),
        *_below("gateway", names="providers further catalogue model_reasons record replay"),
        *_below(
            "approvals", names="approval granular reviewer auto_review approval_timeout_s held"
        ),
        *_below("copies", names="isolation root_isolation copy_kind merge hosts host"),
        *_below("team", names="max_agents max_depth max_spawns wake_parents job_seconds"),
        *_below("lifetime", names="keep_open idle_timeout_s linger_s"),
        *_renamed(
            "skill_set",
            names={"skills": "skills", "skill_lines": "lines", "skill_sources": "sources"},
        ),
        *_renamed(
            "next_input",
            names={"next_prompt": "prompt", "next_images": "images", "next_settings": "settings"},
        ),
        *_renamed(
            *_ITEMS,
            names={
                f"fan_{name}": name
                for name in (
                    *("role", "sandbox", "network", "unix_sockets", "isolation"),
                    *("host", "resources", "budget"),
                )
            },
        ),
        *_renamed(
            *_ITEM_MODEL,
            names={f"fan_{name}": name for name in (*_OF_MODELS, "provider", "fallback")},
        ),
        (("mcp", "items"), (*_ITEMS, "mcp")),
    )
)


def from_former(saved: Table) -> Table:
    """The request with every field at its present place; the same if there is nothing to move."""
    moves = [(now, found) for was, now in MOVED.items() if (found := _take(saved, was))]
    if not moves:
        return saved
    request = _without(saved, MOVED)
    if not _is_table(request.get("fan_out")):
        moves = [(now, found) for now, found in moves if now[0] != "fan_out"]
    else:
        for name, value in _items_own_model(saved).items():
            request = _put(request, (*_ITEM_MODEL, name), value)
    for now, (value,) in moves:
        request = _put(request, now, value)
    return request


def _items_own_model(saved: Table) -> Table:
    """What the agents of items took from the run, unless they had it of their own.

    Another provider has other models.
    """
    names = [name for name in _OF_MODELS if name in saved]
    return {name: saved[name] for name in names if name != "model" or not saved.get("fan_provider")}


def _take(table: Table, place: Place) -> tuple[object, ...]:
    """The value there, if there is one."""
    value: object = table
    for name in place:
        if not _is_table(value) or name not in value:
            return ()
        value = value[name]
    return (value,)


def _put(table: Table, place: Place, value: object) -> Table:
    name, *rest = place
    inner = table.get(name)
    if rest:
        value = _put(inner if _is_table(inner) else {}, tuple(rest), value)
    return {**table, name: value}


def _without(table: Table, places: Mapping[Place, Place]) -> Table:
    left = {name: value for name, value in table.items() if (name,) not in places}
    for name, inner in [place for place in places if len(place) == 2]:
        known = left.get(name)
        if _is_table(known):
            left[name] = {key: value for key, value in known.items() if key != inner}
    return left


def _is_table(value: object) -> TypeGuard[Table]:
    return isinstance(value, dict)
