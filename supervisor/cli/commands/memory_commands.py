"""`swarm memory …`: what runs learned here. The person sees all of it, and has the last word."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.ids import short_id
from swarm.mailbox.protocol.memories import MemorySettings
from swarm.mailbox.redact import Redactor
from swarm.mailbox.safe_open import read_user_file
from swarm.roles.config.atomic_replace import replace_file
from swarm.roles.config.features import resolve_features
from swarm.roles.config.memory_settings import memory_settings

from ...console.number_format import render_age
from ...console.safe_text import clean_line
from ...memories.consolidation import Consolidation
from ...memories.memory_context import known_project
from ...memories.memory_database import open_database
from ...memories.memory_facts import Fact
from ...memories.memory_files import HANDBOOK, SUMMARY
from ...memories.memory_paths import GLOBAL, MemoryPaths, find_project, label_of
from ...memories.memory_search import search_memories
from ...memories.memory_store import MemoryStore
from ...memories.memory_transfer import MAX_BYTES, export_memories, import_memories
from ...runs.paths import find_user_paths
from ..lazy_commands import ColorCommand
from ..memory_job import describe, work
from ..options import stack_options
from ..printing import print_columns, print_json
from ..run_setup.run_settings import find_cwd, load_config_here

_WAIT_S = 10.0
_SHOWN = 10
_DAY_S = 86_400


class _Open(NamedTuple):
    store: MemoryStore
    paths: MemoryPaths
    files: Consolidation
    project: str
    settings: MemorySettings

    def rewrite(self) -> None:
        """Write the project's files as the database is now."""
        since = time.time() - self.settings.max_unused_days * _DAY_S
        written = self.files.write_files(
            self.project, used_since=since, most=self.settings.most_raw
        )
        self.store.remember_written(self.project, written)


@click.group("memory")
def memory() -> None:
    """List, search, change and forget what runs learned in this project.

    Memories are off until you switch them on: `swarm features enable memories`.

    \b
    Example:
      swarm memory list
    """


_of_project = stack_options(
    [
        click.option("-C", "--cd", "cd", metavar="DIR", help="The project; default: here."),
        click.option("--global", "is_global", is_flag=True, help="Memories of all projects."),
    ]
)


def _settings() -> MemorySettings:
    config = load_config_here(lenient=True).config
    switched = resolve_features(config.features, pins={}, warn_of_unstable=False)
    return memory_settings(table=config.memories, is_enabled=switched.is_enabled("memories"))


@contextmanager
def _opened(cd: str | None, *, is_global: bool, writes: bool = True) -> Iterator[_Open]:
    """The person's memories, with edits of files taken over. Raises MemoriesBusy, SwarmError."""
    environment, settings = dict(os.environ), _settings()
    places = find_user_paths(environment)
    paths = MemoryPaths(places)
    folder = str(find_cwd(cd))
    project = GLOBAL if is_global or settings.scope == "global" else ""
    project = project or known_project(places.memories, folder)
    project = project or find_project(folder, environment)[0]
    with paths.writing(wait_s=_WAIT_S), closing(open_database(paths.database)) as base:
        store = MemoryStore(base)
        files = Consolidation(store, paths, summary_tokens=settings.summary_tokens)
        opened = _Open(store, paths, files, project, settings)
        if files.absorb_edits(project, now=time.time()) and writes:
            opened.rewrite()
        yield opened


def _find(opened: _Open, name: str) -> Fact:
    """The fact with this id. Raises UsageError."""
    fact = opened.store.facts.find(name)
    if fact is None or fact.project != opened.project:
        raise UsageError(f"there is no memory {name!r} here; `swarm memory list` shows them")
    return fact


def _row(fact: Fact) -> tuple[str, ...]:
    marks = [word for word, on in (("pinned", fact.pinned), ("yours", fact.by_person)) if on]
    marks += [f"stale: {fact.stale}"] if fact.stale else []
    age = render_age(time.time() - fact.created_at)
    text = f"{fact.text} ({fact.place})" if fact.place else fact.text
    return fact.fact_id, fact.kind, str(fact.uses), age, ", ".join(marks), clean_line(text)


_HEAD = ("ID", "KIND", "USED", "AGE", "STATE", "MEMORY")


@memory.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_of_project
def list_memories(*, as_json: bool, cd: str | None, is_global: bool) -> None:
    """List what is remembered here, pinned and most used first.

    \b
    Example:
      swarm memory list
    """
    with _opened(cd, is_global=is_global) as opened:
        facts = opened.store.facts.all(opened.project)
        label = label_of(opened.project, opened.store.paths_of(opened.project))
    if as_json:
        print_json({"project": opened.project, "label": label, "memories": facts})
        return
    if not facts:
        state = (
            "" if opened.settings.enabled else "; memories are off (swarm features enable memories)"
        )
        click.echo(f"nothing is remembered of {clean_line(label)}{state}", err=True)
        return
    print_columns(_HEAD, [_row(fact) for fact in facts])


@memory.command("show", cls=ColorCommand)
@click.option("--all", "whole", is_flag=True, help="All facts, instead of what agents read.")
@_of_project
def show(*, whole: bool, cd: str | None, is_global: bool) -> None:
    """Show what agents read at their start.

    \b
    Example:
      swarm memory show
    """
    with _opened(cd, is_global=is_global) as opened:
        path = opened.paths.project(opened.project) / (HANDBOOK if whole else SUMMARY)
        if not path.is_file():
            opened.rewrite()
        text = path.read_text("utf-8")
    click.echo(f"{path}\n", err=True)
    for line in text.rstrip("\n").split("\n"):
        click.echo(clean_line(line, limit=2000) if line else "")


@memory.command("search", cls=ColorCommand)
@click.argument("words", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_of_project
def search(words: tuple[str, ...], *, as_json: bool, cd: str | None, is_global: bool) -> None:
    """Search facts and summaries of runs, as agents do.

    \b
    Example:
      swarm memory search tests
    """
    with _opened(cd, is_global=is_global) as opened:
        folder, now = str(find_cwd(cd)), time.time()
        found, more = search_memories(
            opened.store, opened.project, " ".join(words), cwd=folder, now=now
        )
    if as_json:
        print_json({"memories": found, "more": more})
        return
    for one in found:
        state = f" (stale: {one.stale})" if one.stale else ""
        place = f" {one.place}" if one.place else ""
        origin = f"run {short_id(one.run_id)}" if one.run_id else "yours"
        line = f"{one.fact_id or one.kind}  {one.text}{place}{state}  [{origin}, {one.age_days} d]"
        click.echo(clean_line(line, limit=1000))
    if not found:
        click.echo("nothing is found", err=True)


@memory.command("why", cls=ColorCommand)
@click.argument("fact")
@_of_project
def why(fact: str, *, cd: str | None, is_global: bool) -> None:
    """Say where a memory is from, when it was learned, and how often it was used.

    \b
    Example:
      swarm memory why m1234abcd
    """
    with _opened(cd, is_global=is_global) as opened:
        found = _find(opened, fact)
        runs = opened.store.facts.runs_of(found.fact_id)
    click.echo(clean_line(found.text, limit=1000))
    learned = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.created_at))
    used = "never used"
    if found.uses and found.last_used is not None:
        last = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.last_used))
        used = f"used {found.uses} times, last {last}"
    click.echo(f"kind {found.kind}, learned {learned}, {used}")
    if found.place:
        click.echo(clean_line(f"place {found.place}"))
    if found.by_person:
        click.echo("in your words")
    for run_id in runs:
        click.echo(f"run {run_id} (swarm show {short_id(run_id)})")
    if found.stale:
        click.echo(clean_line(f"may be untrue: {found.stale}"))


@memory.command("pin", cls=ColorCommand)
@click.argument("fact")
@click.option("--off", is_flag=True, help="No longer.")
@_of_project
def pin(fact: str, *, off: bool, cd: str | None, is_global: bool) -> None:
    """Keep a memory: it comes first, and is never pruned, reworded or called untrue.

    \b
    Example:
      swarm memory pin m1234abcd
    """
    with _opened(cd, is_global=is_global) as opened:
        found = _find(opened, fact)
        opened.store.facts.pin(found.fact_id, pinned=not off, now=time.time())
        opened.rewrite()


@memory.command("forget", cls=ColorCommand)
@click.argument("facts", nargs=-1)
@click.option("--run", "run_id", metavar="RUN", help="All that only this run taught.")
@click.option("--all", "whole", is_flag=True, help="Everything of this project.")
@_of_project
def forget(
    facts: tuple[str, ...], *, run_id: str | None, whole: bool, cd: str | None, is_global: bool
) -> None:
    """Remove memories everywhere, and keep them from coming back.

    \b
    Example:
      swarm memory forget m1234abcd
    """
    if sum(map(bool, (facts, run_id, whole))) != 1:
        raise UsageError("name memories by their ids, or a run (--run), or --all")
    with _opened(cd, is_global=is_global) as opened:
        store, now = opened.store, time.time()
        if whole:
            facts = tuple(fact.fact_id for fact in store.facts.all(opened.project))
        for name in facts:
            store.facts.forget(_find(opened, name).fact_id, now=now)
        chosen = [
            one.run_id
            for one in store.outputs(opened.project)
            if whole or (run_id and run_id in (one.run_id, short_id(one.run_id)))
        ]
        if run_id and not chosen:
            raise UsageError(f"nothing is remembered of run {run_id!r} here")
        for one in chosen:
            store.remove_run(one, now)
        opened.rewrite()
    click.echo(f"{len(facts) or len(chosen)} forgotten", err=True)


@memory.command("add", cls=ColorCommand)
@click.argument("text")
@_of_project
def add(text: str, *, cd: str | None, is_global: bool) -> None:
    """Write down a note of your own; it counts as pinned.

    \b
    Example:
      swarm memory add "The tests need a running redis."
    """
    with _opened(cd, is_global=is_global) as opened:
        made = opened.store.facts.add_note(opened.project, text, now=time.time())
        opened.rewrite()
    click.echo(made.fact_id)


@memory.command("edit", cls=ColorCommand)
@_of_project
def edit(*, cd: str | None, is_global: bool) -> None:
    """Open MEMORY.md in your editor: change, remove and add lines.

    \b
    Example:
      swarm memory edit
    """
    with _opened(cd, is_global=is_global) as opened:
        path = opened.paths.project(opened.project) / HANDBOOK
        if not path.is_file():
            opened.rewrite()
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        subprocess.run(["/bin/sh", "-c", f'{editor} "$1"', "sh", str(path)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(
            f"the editor did not end well ({error}); {path} is a plain file"
        ) from error
    with _opened(cd, is_global=is_global) as opened:
        click.echo(f"{len(opened.store.facts.all(opened.project))} memories", err=True)


@memory.command("export", cls=ColorCommand)
@click.argument("file", required=False)
@click.option("--all-projects", is_flag=True, help="Memories of all projects.")
@_of_project
def export(file: str | None, *, all_projects: bool, cd: str | None, is_global: bool) -> None:
    """Write memories as JSON, to stdout or into FILE.

    \b
    Example:
      swarm memory export memories.json
    """
    with _opened(cd, is_global=is_global) as opened:
        projects = opened.store.projects() if all_projects else (opened.project,)
        data = export_memories(opened.store, projects)
    if file is None:
        click.echo(data.decode())
    else:
        replace_file(Path(file), data)


@memory.command("import", cls=ColorCommand)
@click.argument("file")
@_of_project
def import_file(file: str, *, cd: str | None, is_global: bool) -> None:
    """Add the memories of a file that `export` wrote; nothing that is here is lost.

    \b
    Example:
      swarm memory import memories.json
    """
    try:
        data = read_user_file(file, most_bytes=MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    with _opened(cd, is_global=is_global) as opened:
        done, projects = import_memories(opened.store, data, redactor=Redactor(()), now=time.time())
        for project in projects:
            opened._replace(project=project).rewrite()
    words = f"{done.facts} memories and {done.runs} runs added"
    click.echo(words + (f", {done.refused} refused" if done.refused else ""), err=True)


@memory.command("status", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_of_project
def status(*, as_json: bool, cd: str | None, is_global: bool) -> None:
    """Say whether memories are on, what there is, what was left out and why, and what it cost.

    \b
    Example:
      swarm memory status
    """
    with _opened(cd, is_global=is_global) as opened:
        store, settings = opened.store, opened.settings
        spent = store.spent(time.strftime("%Y-%m-%d", time.gmtime()))
        left_out = store.left_out()
        failures = [f"{key}: {words}" for _, key, words in store.jobs.failures()]
        table = {
            "enabled": settings.enabled,
            "project": opened.project,
            "folder": str(opened.paths.project(opened.project)),
            "memories": len(store.facts.all(opened.project)),
            "runs": len(store.outputs(opened.project)),
            "projects": len(store.projects()),
            "left_out": left_out,
            "failures": failures,
            "waiting": list(store.jobs.waiting_projects()),
            "tokens_today": spent.tokens,
            "usd_today": round(spent.usd, 4),
        }
    if as_json:
        print_json(table)
        return
    limits = f"of {settings.budget_tokens:,} tokens and ${settings.budget_usd:g}"
    click.echo(f"memories are {'on' if settings.enabled else 'off'}, scope {settings.scope}")
    click.echo(f"{table['memories']} memories of {table['runs']} runs in {table['folder']}")
    click.echo(f"today {spent.tokens:,} tokens, ${spent.usd:.4f} {limits}")
    for run_id, reason in list(left_out.items())[-_SHOWN:]:
        click.echo(clean_line(f"left out: run {short_id(run_id)}: {reason}"))
    for words in failures[-_SHOWN:]:
        click.echo(clean_line(f"failed: {words}"))


@memory.command("run", cls=ColorCommand)
@click.option("--with-polluted", is_flag=True, help="Also runs that read untrusted content.")
def run(*, with_polluted: bool) -> None:
    """Remember ended runs now, instead of after the next one.

    \b
    Example:
      swarm memory run
    """
    settings = _settings()
    if with_polluted:
        settings = msgspec.structs.replace(settings, leaves_out_polluted=False)
    if sys.stderr.isatty():
        click.echo("swarm: reading ended runs", err=True)
    click.echo(describe(work(settings, wait_s=_WAIT_S)))
