"""`swarm memory …`: what runs learned here. The person sees all of it, and has the last word."""

import sys
import time

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import short_id

from ....base.number_format import render_age
from ....base.safe_text import clean_line
from ....clients.cli.base.lazy_commands import ColorCommand
from ....clients.cli.base.printing import print_columns, print_json
from ....clients.cli.run_setup.run_settings import find_cwd
from ..memory_facts import Fact
from ..memory_files import HANDBOOK, SUMMARY
from ..memory_paths import label_of
from ..memory_search import search_memories
from .memory_access import WAIT_S, OpenMemories, of_project, open_memories, settings_here
from .memory_file_commands import edit, export, import_file
from .memory_job import describe, work
from .memory_link_command import link

_SHOWN = 10


@click.group("memory")
def memory() -> None:
    """List, search, change and forget what runs learned in this project.

    Memories are off until you switch them on: `swarm features enable memories`.

    \b
    Example:
      swarm memory list
    """


def _find(opened: OpenMemories, name: str) -> Fact:
    """The fact with this id. Raises UsageError."""
    fact = opened.store.facts.find(name)
    if fact is None or fact.project != opened.project:
        raise UsageError(f"there is no memory {name!r} here; `swarm memory list` shows them")
    return fact


def _row(fact: Fact) -> tuple[str, ...]:
    marks = [word for word, on in (("pinned", fact.pinned), ("yours", fact.by_person)) if on]
    marks += ["untrusted"] if fact.untrusted else []
    marks += [f"stale: {fact.stale}"] if fact.stale else []
    age = render_age(time.time() - fact.created_at)
    text = f"{fact.text} ({fact.place})" if fact.place else fact.text
    return fact.fact_id, fact.kind, str(fact.uses), age, ", ".join(marks), clean_line(text)


_HEAD = ("ID", "KIND", "USED", "AGE", "STATE", "MEMORY")


@memory.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@of_project
def list_memories(*, as_json: bool, cd: str | None, is_global: bool) -> None:
    """List what is remembered here, pinned and most used first.

    \b
    Example:
      swarm memory list
    """
    with open_memories(cd, is_global=is_global) as opened:
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
@of_project
def show(*, whole: bool, cd: str | None, is_global: bool) -> None:
    """Show what agents read at their start.

    \b
    Example:
      swarm memory show
    """
    with open_memories(cd, is_global=is_global) as opened:
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
@of_project
def search(words: tuple[str, ...], *, as_json: bool, cd: str | None, is_global: bool) -> None:
    """Search facts and summaries of runs, as agents do.

    \b
    Example:
      swarm memory search tests
    """
    with open_memories(cd, is_global=is_global) as opened:
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
@of_project
def why(fact: str, *, cd: str | None, is_global: bool) -> None:
    """Say where a memory is from, when it was learned, and how often it was used.

    \b
    Example:
      swarm memory why m1234abcd
    """
    with open_memories(cd, is_global=is_global) as opened:
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
    if found.origin:
        trust = ", which you have not trusted: it is told there alone" if found.untrusted else ""
        click.echo(clean_line(f"learned in {found.origin}{trust}", limit=1000))
    for run_id in runs:
        click.echo(f"run {run_id} (swarm show {short_id(run_id)})")
    if found.stale:
        click.echo(clean_line(f"may be untrue: {found.stale}"))


@memory.command("pin", cls=ColorCommand)
@click.argument("fact")
@click.option("--off", is_flag=True, help="No longer.")
@of_project
def pin(fact: str, *, off: bool, cd: str | None, is_global: bool) -> None:
    """Keep a memory: it comes first, and is never pruned, reworded or called untrue.

    \b
    Example:
      swarm memory pin m1234abcd
    """
    with open_memories(cd, is_global=is_global) as opened:
        found = _find(opened, fact)
        opened.store.facts.pin(found.fact_id, pinned=not off, now=time.time())
        opened.rewrite()


@memory.command("forget", cls=ColorCommand)
@click.argument("facts", nargs=-1)
@click.option("--run", "run_id", metavar="RUN", help="All that only this run taught.")
@click.option("--all", "whole", is_flag=True, help="Everything of this project.")
@of_project
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
    with open_memories(cd, is_global=is_global) as opened:
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
@of_project
def add(text: str, *, cd: str | None, is_global: bool) -> None:
    """Write down a note of your own; it counts as pinned.

    \b
    Example:
      swarm memory add "The tests need a running redis."
    """
    with open_memories(cd, is_global=is_global) as opened:
        made = opened.store.facts.add_note(opened.project, text, now=time.time())
        opened.rewrite()
    click.echo(made.fact_id)


@memory.command("status", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@of_project
def status(*, as_json: bool, cd: str | None, is_global: bool) -> None:
    """Say whether memories are on, what there is, what was left out and why, and what it cost.

    \b
    Example:
      swarm memory status
    """
    with open_memories(cd, is_global=is_global) as opened:
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
    settings = settings_here()
    if not settings.enabled:
        click.echo(
            "memories are off (swarm features enable memories): only runs that began with them on "
            "are read",
            err=True,
        )
    if with_polluted:
        settings = msgspec.structs.replace(settings, leaves_out_polluted=False)
    if sys.stderr.isatty():
        click.echo("swarm: reading ended runs", err=True)
    click.echo(describe(work(settings, wait_s=WAIT_S)))


for _command in (edit, export, import_file, link):
    memory.add_command(_command)
