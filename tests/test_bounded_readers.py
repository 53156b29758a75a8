# ruff: noqa: E501 - tables
"""Whoever reads what strangers write has a bound in size, depth and time.

The table lists the readers of text from outside, by format. Each reads hostile text of a length and
of four times that length, and may not cost more than a linear share more. The second part keeps
others from parsing such text directly, past the bounds of `mailbox/base/bounded_formats.py`.
"""

import ast
import csv
import gzip
import io
import re
import struct
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import yaml

from support.linear_time import find_growth
from support.paths import ROOT
from swarm.mailbox.base.bounded_formats import (
    MAX_KEY_PARTS,
    UnreadableText,
    decode_json,
    decode_json_as,
    longest_key,
    parse_toml_text,
)
from swarm.mailbox.base.bounded_yaml import compose_yaml_text, parse_yaml_text
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import compile_glob
from swarm.mailbox.base.quantities import parse_duration
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.base.redact_structs import redact_json
from swarm.mailbox.base.schema_check import find_violation, open_validator
from swarm.mailbox.base.written_text import read_written_object
from swarm.roles.base.yaml_table import yaml_table
from swarm.roles.config.dotted_key import parse_assignment
from swarm.roles.config.file_reading import parse_toml
from swarm.roles.config.key_positions import find_key_positions
from swarm.roles.config.layers.toml_edit import ConfigEdit, edit_text
from swarm.roles.markdown.front_matter import parse_markdown
from swarm.roles.parts.commands.command_expansion import find_call
from swarm.roles.parts.hooks.hook_file import read_hook_json
from swarm.roles.parts.plugins.files.marketplace_file import read_marketplace
from swarm.roles.parts.plugins.files.plugin_manifest import read_manifest
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.base.safe_text import clean_block, clean_line, first_line
from swarm.supervisor.clients.chat.file_mentions import is_mentionable, rank_files
from swarm.supervisor.clients.cli.run_setup.front_matter_yaml import load_front_yaml
from swarm.supervisor.clients.mcp_server.message_lines import has_id
from swarm.supervisor.clients.repository_facts.build_commands import find_commands, line_width
from swarm.supervisor.clients.repository_facts.repository_survey import RepositorySurvey
from swarm.supervisor.parts.copies.change_branch import _raw_changes
from swarm.supervisor.parts.fan_out.fan_out_items import parse_csv, split_lines
from swarm.supervisor.parts.guardian.assessment import AssessmentUnreadable, assess
from swarm.supervisor.parts.jobs.job_table import read_headers, read_rows
from swarm.supervisor.parts.review.review_output import parse_review
from swarm.worker.gateway.fit.tool_schemas import fit_schema
from swarm.worker.gateway.gguf_header import _needed_bytes, _read_pairs
from swarm.worker.gateway.http.content_decoding import ContentDecoder
from swarm.worker.gateway.sse import SseSplitter
from swarm.worker.gateway.text_tool_calls import extract_tool_calls
from swarm.worker.parts.patch.chunk_matching import locate_edits
from swarm.worker.parts.patch.parse import parse_patch
from swarm.worker.policy.git_settings import _entries, _named_paths
from swarm.worker.policy.shell_parser import heredoc_call, parse_script, plain_commands, walk_nodes
from swarm.worker.tools.word_match import find_words, replace_words

PACKAGES = ("mailbox", "roles", "worker", "supervisor")
REFUSALS = (
    SwarmError, ValueError, csv.Error, yaml.YAMLError, msgspec.MsgspecError, AssessmentUnreadable,
    AgentRequestError,
)  # fmt: skip
SIZE = 3_000
SIZES = {"shell scripts": 6_000}  # its cost is bounded by a length that four times this exceeds
TOML = (
    "a.", '"a".', "[a.", "a={", 'x="""\\"', "x=[", "[", "#.", "a=1_", "[[a]]\n", "a.b=1\n",
    "1.", "'a'.", '"""', "'''", 'a="\\u00e9', "a.b.c.d={", "x=1979-05-27T", "\r", "x={a=1,", "x=0x1"
)  # fmt: skip
YAML = (
    "1:", "[", "{", "- ", "? ", "%TAG !a! b\n", "- &a b\n", "<<: {", "a:\n ", "a: !!int 1:0",
    ":0", "a: ", "'a''", '"\\n', "|\n ", "*a ", "- - ", "!!a ", "a: 1.0:", "\n", " ", "#a\n", "---\n"
)  # fmt: skip
JSON = ("[", '{"a":', '"\\u', "1", "-", "[1,", '{"a":1,', '"\\\\', "1e1", " ")
TEXT = (
    "a", " ", "\n", "\t", "`", "```\n", "<", "<tool_call>", "{", '{"a":', "[", "(", "*", "**", "/", "\\", "'", '"', "$(", "${", "#", "- ", "|",
    "&& ", "; ", "\r", "\x1b[", "\x1b]0;", "é", "@@\n", "+a\n", "-a\n", "a b ", "!", "=", "a=", "<<E\n", "--", ".", "../", "::", ": "
)  # fmt: skip
REVIEW = ("{", '{"findings":[', "```json\n", "[", '"', "}{")
SCHEMA = open_validator({"type": "object"}, linear=True)


KEYS = ("[[a]]\n", "#.", "x=[1,", "\n", "a.b=1\n", "x={a=1,")
CSV = ("a", "a,", ",", "a\n", "a,b\n", '"', '""', '"a",', "\n", "\r", '"\n')
MANIFEST = '{"name":"a","version":"1.0.0","hooks":['
MARKET = '{"name":"a","plugins":[{"name":"b","source":"./b","x":['
SCHEMAS = '{"properties":{"a":{"allOf":[{"$ref":"#"},'


def job_table(text):
    file = JobText(text)
    headers = read_headers(file)
    for _ in read_rows(file, headers, id_column=headers[0]):
        pass


class JobText:
    """A table that is open already."""

    def __init__(self, text):
        self.text = text

    def open(self):
        return io.StringIO(self.text, newline="")


def rank_names(text):
    names = tuple(one for one in text.split("\0") if is_mentionable(one))
    return rank_files(names, "abz")


def git_settings(text):
    for key, value in _entries(text):
        list(_named_paths(key, value, "/p", "/p/.git/config", "/home"))


def gguf_header(text):
    data = b"GGUF\3\0\0\0" + struct.pack("<QQ", 1 << 60, 1 << 60) + text.encode("latin-1")
    with suppress(struct.error, IndexError, UnicodeDecodeError):
        _read_pairs(data)
    with suppress(struct.error, IndexError, UnicodeDecodeError):
        _needed_bytes(data)


def survey(name):
    return lambda text: (
        find_commands(RepositorySurvey(name="p", files={name: text})),
        line_width(RepositorySurvey(name="p", files={name: text})),
    )


def walk_script(script):
    plain_commands(script)
    heredoc_call(script)
    if (parsed := parse_script(script)) is not None:
        list(walk_nodes(parsed[0]))


def feed_stream(text):
    splitter = SseSplitter()
    splitter.feed(text.encode())
    splitter.finish()


def feed_in_pieces(text):
    splitter, data = SseSplitter(), text.encode()
    for at in range(0, len(data), 16):
        splitter.feed(data[at : at + 16])


def apply_patch(text):
    body = "".join(f"-{line}\n+b\n" for line in text.split("\n"))
    patch = parse_patch(f"*** Begin Patch\n*** Update File: a\n@@\n{body}*** End Patch")
    locate_edits(text, patch.hunks[0].chunks, "a")


READERS = {
    "configuration (TOML)": (lambda text: parse_toml(text, Path("x.toml")), TOML),
    "lock files, catalogues (TOML)": (parse_toml_text, TOML),
    "an edit of a configuration": (
        lambda text: edit_text(text, ConfigEdit(steps=("model",), value="m")), TOML[9:11]
    ),
    "a dotted key": (lambda text: parse_assignment(f"{text}=1"), ("a.", '"', "a", " ", "'a'.", '"\\')),
    "durations": (parse_duration, ("1", "1d", "1.", " ")),
    "front matter (YAML)": (lambda text: yaml_table(text, first_line=1), (*YAML, "a: b ")),
    "front matter of a task": (lambda text: load_front_yaml(text, name="t.md"), YAML),
    "scripted models (YAML)": (parse_yaml_text, YAML),
    "Markdown with front matter": (lambda text: parse_markdown(f"---\n{text}\n---\nb".encode()), YAML),
    "Markdown": (lambda text: parse_markdown(text.encode()), ("---\n", *TEXT)),
    "JSON": (decode_json, JSON),
    "JSON that people write": (lambda text: read_written_object(text.encode(), "x"), JSON),
    "JSON of hooks": (lambda text: read_hook_json(text.encode(), "x", form="codex"), JSON),
    "JSON lines of MCP": (lambda text: has_id(text.encode()), JSON),
    "records for the journal": (
        lambda text: redact_json(Redactor(("key-1234567",)), text.encode()), (*JSON, "eyJ", "KEY:")
    ),
    "results against a schema": (lambda text: find_violation(text, SCHEMA), JSON),
    "streams of providers": (feed_stream, ("data: a\n", "data:", "\n", "\r", ":", "event: a\n\n")),
    "streams in small pieces": (feed_in_pieces, ("data: a\n", "data:", "\r", "a", "event: a\n\n")),
    "tool calls in a model's words": (lambda text: extract_tool_calls(text, ()), (*TEXT, *JSON)),
    "a reviewer's answer": (assess, (*JSON, *REVIEW)),
    "a review's findings": (parse_review, (*JSON, *REVIEW)),
    "patches": (parse_patch, ("*** Begin Patch\n", "*** Add File: a\n+a\n", "@@\n-a\n", *TEXT)),
    "patches against a file": (apply_patch, ("a\n", "a", "\n", "a\nb\n")),
    "edits by words": (lambda text: find_words(text, "a b a b a"), ("a b ", "a ", " ", "\n")),
    "edits in a file's layout": (lambda text: replace_words("a b " * 50, text), ("a ", "a b ", "\n")),
    "shell scripts": (walk_script, TEXT),
    "globs with a star, and a path": (compile_glob("*a*a*a*a*b").fullmatch, ("a", "ab", "b")),
    "globs with folders, and a path": (
        compile_glob("**/a/**/a/**/a/**/b").fullmatch, ("a/", "b/", "a")
    ),
    "globs": (lambda text: compile_glob(text).match("a/b/" * 20), ("*", "**/", "?", "[a", "{a,", "a")),
    "build files": (survey("Makefile"), ("a:\n", "a", "\t", "a: b\n", ".PHONY: ", " ")),
    "workflows": (survey(".github/workflows/ci.yml"), ("run: a\n", " ", "\n", "- run: |\n  a\n")),
    "pyproject": (survey("pyproject.toml"), TOML),
    "package.json": (survey("package.json"), JSON),
    "terminal text": (lambda text: (clean_block(text), clean_line(text), first_line(text)), TEXT),
    "calls of command files": (lambda text: find_call(text, ()), ("/a", "/a ", "/a:b ", '"', "\n")),
    "lines of keys, for messages": (lambda text: find_key_positions.__wrapped__(text), KEYS),
    "items of a fan-out (CSV)": (lambda text: parse_csv(text, Path("x.csv")), CSV),
    "items of a fan-out (lines)": (split_lines, ("a", "a\n", "\n", "\x0b", "\x1b", " ")),
    "tables of a batch job (CSV)": (job_table, CSV),
    "manifests of plugins": (
        lambda text: read_manifest(text.encode(), path="x", folder_name="x"), (*JSON, MANIFEST)
    ),
    "lists of a marketplace": (lambda text: read_marketplace(text.encode(), path="x"), (*JSON, MARKET)),
    "schemas of results": (
        lambda text: open_validator(decode_json_as(text, dict[str, object]), linear=True), (*JSON, SCHEMAS)
    ),
    "schemas of tools": (lambda text: fit_schema(text.encode(), is_plain=True), (*JSON, SCHEMAS)),
    "raw changes of git": (_raw_changes, (":", ":0 0 a b M\0a\0", "\0", "\n", ": ", "a")),
    "git's names of files": (rank_names, ("a\0", "\0", "ab", "a/", "\x1b", "z")),
    "settings of git": (git_settings, ("[a]\n", "[", "\\\n", "a=b\n", "path=/a\n", "#", "a = ./b ")),
    "headers of model files": (gguf_header, ("a", "\0", "\1\0\0\0\0\0\0\0a\\8\0\0\0", "\xff")),
    "packed answers": (
        lambda text: list(ContentDecoder("gzip").feed(gzip.compress(text.encode()))), ("a", "\0", "ab")
    ),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_of_strangers_text_takes_linear_time(reader):
    read, units = READERS[reader]
    size = SIZES.get(reader, SIZE)
    for unit in units:
        for tail in ("", "\n=}]\x00"):

            def make(length, unit=unit, tail=tail):
                return unit * (length // len(unit)) + tail

            assert not find_growth(read, make, size, expected=REFUSALS), (reader, unit)


@pytest.mark.parametrize("text", ["a." * 40 + "a=1", '"a".' * 40 + "a=1", "[" + "a." * 40 + "a]"])
def test_a_dotted_key_of_many_parts_is_refused_before_it_costs_anything(text):
    with pytest.raises(UnreadableText, match="parts"):
        parse_toml_text(text)


@pytest.mark.parametrize(
    "text",
    [
        'a = "' + "1." * 100 + '"', "a = '''\n" + "x." * 100 + "\n'''", "# " + "." * 200,
        'a = """\\"""' + "." * 100 + '"""', "a = [" + "1.5, " * 100 + "]",
        "x." * (MAX_KEY_PARTS - 1) + "x = 1",
    ],
)  # fmt: skip
def test_dots_in_texts_comments_and_numbers_are_no_parts_of_a_key(text):
    assert longest_key(text) <= MAX_KEY_PARTS
    parse_toml_text(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [("a: &x 1\nb: *x", "aliases"), ("[" * 100, "deep"), ("%TAG !a! b\n" * 20, "directives"),
     ("a: 1" + ":00" * 100, "number"), ('a: !!int "1' + ":00" * 100 + '"', "number")],
)  # fmt: skip
def test_yaml_that_would_cost_more_than_its_length_is_refused(text, why):
    with pytest.raises(UnreadableText, match=why):
        parse_yaml_text(text)


def test_aliases_of_a_persons_own_script_count_with_all_that_they_stand_for():
    text = "a: &x {b: 1}\nc: [*x, *x]\n"
    assert compose_yaml_text(text, aliases=True)[1] == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}
    rows = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]
    laughs = "\n".join(["l0: &l0 [ha]", *rows])
    with pytest.raises(UnreadableText, match="parts"):
        compose_yaml_text(laughs, aliases=True)
    with pytest.raises(UnreadableText, match="within"):
        compose_yaml_text("a: &x [*x]", aliases=True)


# Who parses directly, and why that is no stranger's text.
_SHIPPED = "a file of the package"
_HANDLED = "handles RecursionError itself"
DIRECT = {
    "mailbox/base/bounded_formats.py": "the bounded readers themselves",
    "mailbox/base/bounded_yaml.py": "the bounded reader of YAML",
    "mailbox/base/redact_rules.py": _SHIPPED,
    "supervisor/parts/memories/memory_rules.py": _SHIPPED,
    "supervisor/parts/goals/check_words.py": _SHIPPED,
    "worker/gateway/reset_times.py": _SHIPPED,
    "worker/gateway/weights.py": "the person's own models.toml, and the package's",
    "mailbox/base/call_arguments.py": _HANDLED,
    "mailbox/base/redact_structs.py": _HANDLED,
    "mailbox/base/schema_check.py": _HANDLED,
    "roles/parts/hooks/hook_arguments.py": _HANDLED,
    "worker/gateway/request_encoding.py": _HANDLED,
    "worker/parts/hooks/hook_questions.py": _HANDLED,
    "worker/parts/hooks/tool_hooks.py": _HANDLED,
    "worker/probe/probe_tasks.py": _HANDLED,
    "worker/tools/mcp_tool.py": _HANDLED,
    "worker/tools/trained_calls.py": _HANDLED,
    "supervisor/parts/guardian/assessment.py": _HANDLED,
    "supervisor/parts/review/review_output.py": _HANDLED,
}


OWN = (  # files and pipes of swarm's own, which no command of an agent can write
    "roles/config/secret_store.py", "roles/parts/accounts/login_settings.py",
    "worker/parts/clouds/cloud_keys.py", "worker/parts/clouds/cloud_process.py",
    "roles/parts/accounts/stored_account.py",
    "roles/config/login_store.py", "roles/config/layers/trust.py", "roles/pinned_programs.py",
    "roles/parts/plugins/plugin_store.py",
    "roles/parts/skills/skill_cache.py", "roles/parts/skills/skill_use.py", "worker/gateway/model_server.py",
    "worker/parts/hooks/http_post.py", "worker/parts/hosts/node_holder.py", "worker/programs/copy_command.py",
    "worker/programs/enter_copy.py", "supervisor/parts/copies/copy_writer.py",
    "worker/programs/explanation_output.py", "worker/probe/probe_process.py",
    "worker/programs/sandbox_command.py", "supervisor/clients/chat/own_commands.py",
    "supervisor/clients/chat/prompt_completion.py", "supervisor/clients/cli/base/agents_draft_run.py",
    "supervisor/parts/memories/commands/memory_job.py", "supervisor/parts/memories/commands/memory_question.py",
    "supervisor/processes/machine_sandbox.py", "supervisor/runs/folder_watch.py",
    "supervisor/runs/run_metadata.py", "supervisor/request/saved_request.py",
    "supervisor/runs/unfinished_merge.py", "supervisor/parts/jobs/job_table.py",
)  # fmt: skip
DIRECT |= {
    "roles/rules/program_effects.py": "a table that is shipped with swarm",
    "roles/config/dotted_key.py": "one quoted text, of an argument",
    "mailbox/base/own_distribution.py": "the metadata of the installation",
    "roles/parts/hooks/hook_objection.py": _HANDLED,
    "worker/gateway/failure_texts.py": _SHIPPED,
    "worker/sandbox/package_caches.py": _SHIPPED,
    "supervisor/parts/copies/prepared_layers.py": _SHIPPED,
    "worker/gateway/fit/dialect.py": _SHIPPED,
    "supervisor/parts/review/syntax_check.py": "a process of its own, in the sandbox, with a limit",
}


_PARSERS = {
    "tomllib.loads", "tomllib.load", "yaml.load", "yaml.safe_load", "yaml.compose", "yaml.parse",
    "json.load", "json.loads", "msgspec.json.decode", "msgspec.yaml.decode", "msgspec.toml.decode",
}  # fmt: skip


_LAST_NAMES = {name.rpartition(".")[2] for name in _PARSERS}
_FORMATS = re.compile(r"\b(?:json|yaml|toml|tomllib)\b")  # in each of `_PARSERS`


def _direct_calls(path):
    text = path.read_text("utf-8")
    if not _FORMATS.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in _LAST_NAMES:
            name = ast.unparse(node)
            if name in _PARSERS:
                yield name


def test_nobody_parses_strangers_text_past_the_bounds():
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if calls := sorted(set(_direct_calls(path))):
                found[name] = calls
    new = {name: calls for name, calls in found.items() if name not in {*DIRECT, *OWN}}
    unneeded = {*DIRECT, *OWN} - found.keys()
    assert not new, f"use mailbox/base/bounded_formats.py, or say here why not: {new}"
    assert not unneeded, "these parse nothing themselves any more"
