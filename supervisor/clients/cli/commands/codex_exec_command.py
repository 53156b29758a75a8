"""`swarm exec`: the command line of `codex exec`, for its SDKs and for scripts written for it."""

import os
import sys
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.key_wiping import take_keys
from swarm.roles.config.layers.merge import parse_override
from swarm.roles.rights.permission_profiles import chosen_profile

from ....request.isolation_text import describe_isolation
from ....request.run_request import RunRequest
from ....runs.paths import RunPaths, find_run, find_user_paths, paths_of_run
from ....runs.run_list import list_runs
from ..base.codex_arguments import ExecWords, append_stdin, parse_words, split_unknown, stdin_use
from ..base.lazy_commands import ColorCommand
from ..run_setup.click_values import OptionValue
from ..run_setup.options import SANDBOXES, RunOptions, ShowOptions, trust_once_option
from ..run_setup.request_builder import checked_images
from ..run_setup.request_parts import load_schema
from ..run_setup.run_settings import find_cwd, load_config_here
from ..run_setup.task_file import MAX_TASK_BYTES, decode_task
from .resume_command import rebuild_request, with_images
from .run_command import prepare_run
from .run_execution import start_run

_KEY = "CODEX_API_KEY"
_ORIGINATOR = "CODEX_INTERNAL_ORIGINATOR_OVERRIDE"  # the SDKs name themselves with it
_DRAIN_BYTES = 64 * 1024
_WITHOUT_EFFECT = ("ignore_rules", "ignore_user_config", "bypass_hook_trust")


class CodexCommand(ColorCommand):
    """A command that warns of unknown options instead of refusing them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        names = [
            (name, one.is_flag) for one in options for name in (*one.opts, *one.secondary_opts)
        ]
        split = split_unknown(
            args,
            flags={name for name, is_flag in names if is_flag},
            valued={name for name, is_flag in names if not is_flag},
        )
        for word in split.unknown:
            click.echo(f"swarm: warning: {word} is not known here and has no effect", err=True)
        return super().parse_args(ctx, split.arguments)


@click.command("exec", cls=CodexCommand)
@click.argument("words", nargs=-1, metavar="[resume SESSION] [PROMPT]")
@click.option("--json", "--experimental-json", "as_json", is_flag=True, help="Events on stdout.")
@click.option("-c", "--config", multiple=True, metavar="KEY=VALUE", help="As for `swarm run`.")
@click.option("--enable", multiple=True, metavar="FEATURE", help="As for `swarm run`.")
@click.option("--disable", multiple=True, metavar="FEATURE", help="As for `swarm run`.")
@click.option("--strict-config", is_flag=True, help="Unknown keys are errors.")
@click.option("-m", "--model", help="The model.")
@click.option("-p", "--profile", metavar="NAME", help="Also read NAME.config.toml.")
@click.option("--oss", is_flag=True, help="A model of this machine (--local-provider).")
@click.option("--local-provider", help="ollama (default) or lmstudio.")
@click.option("-s", "--sandbox", type=click.Choice(SANDBOXES), help="Default: read-only.")
@click.option("--full-auto", is_flag=True, help="As -s workspace-write.")
@click.option(
    "--approve-for-me", is_flag=True, help="The reviewer is asked; the sandbox is workspace-write."
)
@click.option(
    "--dangerously-bypass-approvals-and-sandbox", "--yolo", "bypass", is_flag=True,
    help="No sandbox, no questions.",
)  # fmt: skip
@click.option("-C", "--cd", metavar="DIR", help="Where the agent works.")
@click.option("--add-dir", multiple=True, metavar="DIR", help="One more folder it may write.")
@click.option("--skip-git-repo-check", is_flag=True, help="Also run outside of a repository.")
@click.option("-i", "--image", multiple=True, metavar="FILE", help="An image with the prompt.")
@click.option("--output-schema", metavar="FILE", help="JSON schema that the answer must fit.")
@click.option("-o", "--output-last-message", metavar="FILE", help="Write the answer to FILE.")
@trust_once_option
@click.option("--ephemeral", is_flag=True, help="Keep nothing after the end.")
@click.option("--last", is_flag=True, help="With resume: the newest session of this folder.")
@click.option("--all", "everywhere", is_flag=True, help="With --last: of any folder.")
@click.option("--thread-source", hidden=True)
@click.option("--cyber-access-program", hidden=True)
@click.option("--trust", is_flag=True, hidden=True)
@click.option("--ignore-rules", is_flag=True, hidden=True)
@click.option("--ignore-user-config", is_flag=True, hidden=True)
@click.option("--dangerously-bypass-hook-trust", "bypass_hook_trust", is_flag=True, hidden=True)
def exec_run(words: tuple[str, ...], **given: OptionValue) -> int:
    """Run a prompt as `codex exec` does, for its SDKs and scripts.

    The prompt is an argument, or stdin. Nobody is asked: what needs an approval is refused.
    With --json, stdout has the events that the SDKs of Codex decode. See docs/exec.md.

    \b
    Examples:
      swarm exec -s workspace-write "Fix the failing test."
      swarm exec --json resume 01a1f2c4 "And now the docs." < /dev/null
    """
    meant = parse_words(words, last=given["last"])
    for name in _WITHOUT_EFFECT:
        if given[name]:
            click.echo(f"swarm: warning: {name.replace('_', '-')} has no effect here", err=True)
    environment = dict(os.environ)
    environment.pop(_ORIGINATOR, None)
    key = take_keys(environment, (_KEY,)).get(_KEY)
    prompt = _read_prompt(meant)
    found = _find_session(meant, given, environment)
    if found is not None:
        request = _resumed(found, environment, given, prompt)
    else:
        request = _fresh(environment, given, prompt)
    if key:
        request = msgspec.structs.replace(request, keys={**request.keys, "OPENAI_API_KEY": key})
    answer = given["output_last_message"]
    show = ShowOptions(
        as_json=given["as_json"],
        as_codex=True,
        plain=True,
        output_last_message=None if answer is None else str(Path(answer).absolute()),
    )
    return 1 if start_run(request, show, find_user_paths(environment)) else 0


def _read_prompt(meant: ExecWords) -> str:
    use = stdin_use(meant.prompt, is_terminal=sys.stdin.isatty(), resumes=meant.resumes)
    match use:
        case "missing":
            raise SwarmError("no prompt; give it as an argument, or pipe it into stdin")
        case "unused":
            return meant.prompt or ""
        case "prompt":
            if meant.prompt is None:
                click.echo("Reading prompt from stdin...", err=True)
            return decode_task(_read_stdin(), name="stdin").strip()
        case "appended":
            click.echo("Reading additional input from stdin...", err=True)
            data = _read_stdin()
            text = decode_task(data, name="stdin") if data.strip() else ""
            return append_stdin(meant.prompt or "", text)


def _read_stdin() -> bytes:
    """At most one byte more than a prompt may have; the rest is read and dropped.

    A writer that found nobody there would end by a broken pipe instead of reading our error.
    """
    data = sys.stdin.buffer.read(MAX_TASK_BYTES + 1)
    if len(data) > MAX_TASK_BYTES:
        while sys.stdin.buffer.read(_DRAIN_BYTES):
            pass
    return data


def _find_session(
    meant: ExecWords, given: dict[str, OptionValue], environment: dict[str, str]
) -> RunPaths | None:
    """The run to resume; None for a new one, also if `--last` finds none."""
    if not meant.resumes:
        return None
    places = find_user_paths(environment)
    if meant.session is not None:
        return paths_of_run(places, find_run(places, meant.session))
    here = str(find_cwd(given["cd"]))
    fits = [run for run in list_runs(places) if given["everywhere"] or run.cwd == here]
    newest = max((run.run_id for run in fits), default=None)
    return None if newest is None else paths_of_run(places, newest)


def _fresh(environment: dict[str, str], given: dict[str, OptionValue], prompt: str) -> RunRequest:
    if not (given["skip_git_repo_check"] or given["bypass"]):
        _check_repository(find_cwd(given["cd"]))
    sandbox = _sandbox(given)
    asks = given["approve_for_me"]
    options = RunOptions(
        prompt=prompt, cd=given["cd"], add_dir=given["add_dir"], image=given["image"],
        model=given["model"], provider=_provider(given), profile=given["profile"],
        config=given["config"], enable=given["enable"], disable=given["disable"],
        strict_config=given["strict_config"], sandbox=sandbox,
        approval="on-request" if asks else "never", reviewer="guardian" if asks else "nobody",
        output_schema=given["output_schema"], ephemeral=given["ephemeral"],
        trust_once=given["trust_once"],
    )  # fmt: skip
    prepared = prepare_run(options, environment)
    if isolated := describe_isolation(prepared.request):
        click.echo(f"swarm: {isolated}", err=True)
    for warning in prepared.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)
    return prepared.request


def _sandbox(given: dict[str, OptionValue]) -> str | None:
    """What was asked for; read-only if neither an option nor the configuration says anything."""
    if given["bypass"]:
        return "danger-full-access"
    if given["sandbox"] is not None:
        return str(given["sandbox"])
    if given["full_auto"] or given["approve_for_me"]:
        return "workspace-write"
    loaded = load_config_here(given["config"], profile=given["profile"])
    is_set = "sandbox_mode" in loaded.merged.values or chosen_profile(loaded.layers) is not None
    return None if is_set else "read-only"


def _provider(given: dict[str, OptionValue]) -> str | None:
    return (given["local_provider"] or "ollama") if given["oss"] else given["local_provider"]


def _check_repository(cwd: Path) -> None:
    if not any((folder / ".git").exists() for folder in (cwd, *cwd.parents)):
        raise SwarmError(
            f"{cwd} is not inside a git repository; work in one, or give --skip-git-repo-check"
        )


def _resumed(
    found: RunPaths, environment: dict[str, str], given: dict[str, OptionValue], prompt: str
) -> RunRequest:
    """The saved request with the next prompt, its images and its schema."""
    changes: dict[str, OptionValue] = {
        "prompt": prompt, "config": given["config"], "model": given["model"],
        "effort": _effort(given["config"]), "sandbox": given["sandbox"], "approval": None,
        "budget_tokens": None, "budget_usd": None, "budget_requests": None, "deadline": None,
        "keep_open": False, "idle_timeout": None, "cd": given["cd"],
    }  # fmt: skip
    images = checked_images(given["image"])
    schema = given["output_schema"]
    click.echo(f"swarm: resuming {short_id(found.folder.name)}", err=True)
    request = with_images(rebuild_request(found, environment, changes), images)
    lifetime = msgspec.structs.replace(request.lifetime, keep_open=False, idle_timeout_s=None)
    return msgspec.structs.replace(
        request,
        lifetime=lifetime,  # it ends with this answer, whatever the session was before
        output_schema=None if schema is None else load_schema(schema, "", "--output-schema"),
    )


def _effort(overrides: tuple[str, ...]) -> str | None:
    """The SDKs give the effort as an override of the configuration."""
    found: object = None
    for raw in overrides:
        found = parse_override(raw).get("model_reasoning_effort", found)
    if found is not None and not isinstance(found, str):
        raise UsageError("model_reasoning_effort must be a word")
    return found
