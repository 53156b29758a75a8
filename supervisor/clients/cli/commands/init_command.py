"""`swarm init`: drafts AGENTS.md for a repository, shows the change, and writes it after a yes."""

import difflib
import errno
import os
import stat
import sys
from pathlib import Path
from typing import IO

import click
from rich.text import Text

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.safe_open import (
    READ_FLAGS,
    OpenFolder,
    open_canonical,
    read_user_file,
    read_whole,
)
from swarm.mailbox.base.written_text import NotText, decode_written

from ....base.safe_text import clean_block, clean_line
from ....runs.result_file import ResultFile
from ...console.terminal import ColorChoice
from ...console.theme import BAD, BUSY, GOOD, PLAIN, make_console
from ...repository_facts.agents_section import (
    section_from_answer,
    section_from_files,
    with_section,
)
from ...repository_facts.repository_survey import survey_repository
from ..base.agents_draft_run import DraftModel, draft_by_model, is_model_configured
from ..base.confirmation import confirm
from ..base.lazy_commands import ColorCommand
from ..base.printing import say
from ..base.sandboxed_script import run_sandboxed_script
from ..run_setup.run_settings import find_cwd, load_config_here

_NAME = "AGENTS.md"
_MOST_BYTES = 256 << 10
_LOG = "git log -n 50 --format=%s"


@click.command("init", cls=ColorCommand)
@click.option("-C", "--cd", metavar="DIR", help="The folder of the project.")
@click.option("--from-files", is_flag=True, help="Ask no model: from the build files alone.")
@click.option("-m", "--model", help="The model that looks at the project.")
@click.option("--provider", metavar="ID", help="Its provider.")
@click.option("-y", "--yes", is_flag=True, help="Write without a question; for scripts.")
@click.option("--save-draft", metavar="FILE", help="Write the draft into FILE, not AGENTS.md.")
@click.option("--draft", metavar="FILE", help="Take this draft, made with --save-draft.")
@click.pass_obj
def init(color: ColorChoice, /, **given: str | bool | None) -> None:
    """Draft AGENTS.md for a project, and show it first.

    It says what agents need to know to build, test and change the project. An explorer looks at
    the project, read-only; without a capable model its build files must do. Of an
    AGENTS.md that is there only the section of `swarm init` is replaced; without one it is added.

    \b
    Examples:
      swarm init
      swarm init --from-files --yes
    """
    wanted = given["cd"]
    root = Path(os.path.realpath(find_cwd(wanted if isinstance(wanted, str) else None)))
    try:
        folder = OpenFolder(str(root))
    except OSError as error:
        raise UsageError(f"{root} cannot be opened: {error.strerror}") from error
    try:
        _draft_into(folder, root, given, color)
    finally:
        folder.close()


def _draft_into(
    folder: OpenFolder, root: Path, given: dict[str, str | bool | None], color: ColorChoice
) -> None:
    existing = _read_existing(root / _NAME)
    draft, place = given["draft"], given["save_draft"]
    wanted = _read_draft(draft) if isinstance(draft, str) else _draft(root, given, existing or "")
    if wanted == existing:
        click.echo(f"{root / _NAME} says all that already", err=True)
        return
    _show_change(existing or "", wanted, color)
    if isinstance(place, str):
        ResultFile(Path(place)).write(wanted)
        click.echo(f"the draft is in {place}; `swarm init --draft FILE` writes it", err=True)
        return
    verb = "Change" if existing is not None else "Write"
    confirm(f"{verb} {root / _NAME} as shown?", yes=given["yes"] is True)
    _write(folder, root / _NAME, wanted, existing)
    click.echo(f"{'changed' if existing is not None else 'wrote'} {root / _NAME}", err=True)


def _draft(root: Path, given: dict[str, str | bool | None], existing: str) -> str:
    model, provider = given["model"], given["provider"]
    wanted = DraftModel(
        model=model if isinstance(model, str) else None,
        provider=provider if isinstance(provider, str) else None,
    )
    try:
        survey = survey_repository(root, subjects=_commit_subjects(root))
    except OSError as error:
        raise UsageError(f"{root} cannot be read: {error.strerror}") from error
    section = section_from_files(survey)
    if not given["from_files"]:
        section = _by_model(root, wanted, facts=section, existing=existing) or section
    if not section:
        raise SwarmError(
            f"{root}: no build file, no folder and no test that says how to work here; write "
            f"{_NAME} by hand, or name a model that shall look: swarm init -m NAME"
        )
    return with_section(existing, clean_block(section), name=root.name)


def _by_model(root: Path, wanted: DraftModel, *, facts: str, existing: str) -> str | None:
    """A model's section; None if there is no capable model, which is said."""
    os.chdir(root)  # its configuration is the one that a run there would have
    if not is_model_configured(wanted, load_config_here().config, os.environ):
        say("no model is configured: the draft is from the build files")
        return None
    try:
        answer = draft_by_model(root, wanted, facts=facts, existing=existing)
    except UsageError as error:
        why = clean_line(str(error))
    else:
        if (section := section_from_answer(answer)) is not None:
            return section
        why = "its answer was no Markdown with a heading, of at most 16 KiB"
    say(f"warning: {why}; the draft is from the build files")
    return None


def _commit_subjects(root: Path) -> tuple[str, ...]:
    """Subjects of the newest commits; git runs in the read-only sandbox. None where it fails."""
    try:
        text = run_sandboxed_script(_LOG, root, shown="git log", own=True)
    except SwarmError:
        return ()
    return tuple(line[:200] for line in text.split("\n")[:50] if line.strip())


def _read_existing(path: Path) -> str | None:
    """The present text; None if there is no file. Raises UsageError for what is no plain text."""
    try:
        return read_whole(open_canonical(str(path), READ_FLAGS), most_bytes=_MOST_BYTES).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8; convert it first") from error
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        why = (
            "it is a link; run this where it leads to" if is_link else error.strerror or str(error)
        )
        raise UsageError(f"{path} is left as it is: {why}") from error


def _read_draft(path: str) -> str:
    try:
        return clean_block(decode_written(read_user_file(path, most_bytes=_MOST_BYTES)))
    except (OSError, NotText) as error:
        raise UsageError(f"--draft {path}: {error}") from error


def _show_change(before: str, after: str, color: ColorChoice) -> None:
    """The change as a unified diff on stdout."""
    console = make_console(sys.stdout, environment=os.environ, color=color)
    head = f"a/{_NAME}" if before else "/dev/null"
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), head, f"b/{_NAME}", lineterm=""
    )
    for line in lines:
        style = {"+": GOOD, "-": BAD, "@": BUSY}.get(line[:1], PLAIN)
        console.print(Text(clean_block(line), style=style), soft_wrap=True)


def _write(folder: OpenFolder, path: Path, text: str, existing: str | None) -> None:
    """Replace the file whole, unless it is no longer what the change was shown against.

    `folder` was opened before the draft was made: no link that took its place is followed.
    """
    if _read_existing(path) != existing:
        raise UsageError(f"{path} has changed meanwhile; nothing was written, run it again")

    def write(file: IO[bytes]) -> None:
        file.write(text.encode())

    try:
        mode = 0o666 if existing is None else stat.S_IMODE(path.lstat().st_mode)
        folder.replace(path.name, write, mode=mode)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
