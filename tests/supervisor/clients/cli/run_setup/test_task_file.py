"""Task files: every mistake is told with file, line and key; stdin is read only for `-`."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.cli.run_setup.task_file import (
    decode_task,
    parse_front,
    parse_task,
    read_task,
)


def never():
    raise AssertionError("stdin was read")


def parse(text):
    return parse_task(text, name="t.md", task="t.md")


def test_a_task_without_front_matter_is_its_text():
    assert parse("# Title\n\nDo it.\n").body == "# Title\n\nDo it."


def test_the_front_matter_sets_what_flags_can_set():
    task = parse(
        "---\nrole: explorer\nmodel: m\nprovider: ollama\neffort: none\nsandbox: read-only\n"
        "approval: never\nreviewer: guardian\nmax_agents: 4\nmax_depth: 2\n"
        "budget: {tokens: 10, usd: 0.5}\ndeadline: 30m\ncontext: ['*.py']\n"
        "output_schema: {type: object}\n"
        "fan_out:\n  role: worker\n  each: {dirs: 'src/*'}\n  prompt: '{item}?'\n  retries: 1\n"
        "---\nBody\n---\nmore\n"
    )
    front = task.front
    assert (front.role, front.effort, front.sandbox, front.deadline) == (
        "explorer", "none", "read-only", "30m",
    )  # fmt: skip
    assert front.budget is not None
    assert (front.budget.tokens, front.budget.usd) == (10, 0.5)
    assert front.fan_out is not None
    assert front.fan_out.each.dirs == "src/*"
    assert task.body == "Body\n---\nmore"


@pytest.mark.parametrize(
    ("front", "error"),
    [
        ("role: x\nrolle: y", "t.md, line 3, key rolle: unknown key; did you mean `role`?"),
        ("max_agents: many", "t.md, line 2, key max_agents: must be a whole number, not a text"),
        ("role: a\nmax_agents: 0", "t.md, line 3, key max_agents: must be at least 1"),
        ("max_depth: -1", "t.md, line 2, key max_depth: must not be negative"),
        ("role: a\ndeadline: soon", "t.md, line 3, key deadline: 'soon' is not a length of time"),
        ("sandbox: none", "t.md, line 2, key sandbox: 'none' is not known; there are"),
        ("role: a\nrole: b", "t.md, line 3, key role: given twice"),
        ("budget:\n  token: 5",
         "t.md, line 3, key budget.token: unknown key; did you mean `tokens`?"),
        ("context: '*.py'", "t.md, line 2, key context: must be a list, not a text"),
        ("role: [", "t.md, line 3: not valid YAML: "),
        ("null", "t.md, line 2: the front matter must be `key: value` lines"),
        ("- a\n- b", "t.md, line 2: the front matter must be `key: value` lines"),
        ("a: &x [1]\nb: *x", "t.md, line 3: not valid YAML: aliases"),
        ("x: !!python/object/apply:os.system [id]", "t.md, line 2: not valid YAML: "),
        ("? [a]\n: b", "t.md, line 2: not valid YAML: found unhashable key"),
        ("fan_out: {prompt: p}", "t.md, line 2, key fan_out: Object missing required field `each`"),
        ("fan_out:\n  prompt: p\n  each: {dir: x}",
         "t.md, line 4, key fan_out.each.dir: unknown key; did you mean `dirs`?"),
        ("fan_out:\n  prompt: p\n  each: {dirs: x, csv: y}",
         "t.md, line 4, key fan_out.each: fan_out.each needs exactly one of"),
        ("fan_out:\n  each: {csv: y}\n  prompt: ' '",
         "t.md, line 4, key fan_out.prompt: must not be blank"),
        ("fan_out:\n  each: {csv: y}\n  prompt: p\n  retries: 99",
         "t.md, line 5, key fan_out.retries: must be from 0 to 10"),
        ("fan_out:\n  each: {csv: y}\n  prompt: p\n  concurrency: 0",
         "t.md, line 5, key fan_out.concurrency: must be at least 1"),
        ("[" * 3000, "t.md, line 2: not valid YAML: "),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_key(front, error):
    with pytest.raises(UsageError) as caught:
        parse(f"---\n{front}\n---\nbody")
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nrole: x\nbody", "line 1: the front matter is not closed"),
        ("---\nrole: x\n---\n \n", "line 3: no task below the front matter"),
    ],
)
def test_a_front_matter_must_end_and_be_followed(text, words):
    with pytest.raises(UsageError, match=words):
        parse(text)


@given(st.text())
def test_any_front_matter_is_either_read_or_refused(text):
    try:
        parse_front(text, name="t.md")
    except UsageError as error:
        assert str(error).startswith("t.md")


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_marked_encodings_are_read(codec):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(codec, b"")
    assert decode_task(mark + "Grüße".encode(codec), name="t") == "Grüße"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "t: the task is empty"),
        (b" \n\t", "t: the task is empty"),
        (b"a\xc3", "t: not utf-8 text at byte 1"),
        (b"a\0b", "NUL characters"),
        (b"\xff\xfea", "not utf-16 text"),
        (b"x" * (1 << 20) + b"y", "over 1 MiB"),
    ],
)
def test_what_is_no_task_is_refused(data, words):
    with pytest.raises(UsageError, match=words):
        decode_task(data, name="t")


def test_a_missing_file_names_its_nearest_neighbour(tmp_path):
    (tmp_path / "task.md").write_text("x")
    with pytest.raises(
        UsageError, match=r"taks\.md: there is no such task file; did you mean .*task"
    ):
        read_task(str(tmp_path / "taks.md"), prompt=None, read_stdin=never)


def test_a_folder_is_no_task(tmp_path):
    with pytest.raises(UsageError, match="Is a directory"):
        read_task(str(tmp_path), prompt=None, read_stdin=never)


@pytest.mark.parametrize("prompt", ["hello", "---\nnot: front matter\n---\n"])
def test_a_prompt_never_reads_stdin_and_has_no_front_matter(prompt):
    task = read_task(None, prompt=prompt, read_stdin=never)
    assert (task.name, task.body) == ("prompt", prompt)


def test_a_dash_reads_stdin(tmp_path):
    task = read_task("-", prompt=None, read_stdin=lambda: b"---\nrole: worker\n---\nhello")
    assert (task.name, task.body, task.front.role) == ("-", "hello", "worker")


@pytest.mark.parametrize(
    ("wanted", "prompt"), [(None, None), ("t.md", "text"), (None, " "), (None, "x" * (2 << 20))]
)
def test_exactly_one_task_is_wanted(wanted, prompt):
    with pytest.raises(UsageError):
        read_task(wanted, prompt=prompt, read_stdin=never)


def test_a_pipe_is_a_task_only_where_the_shell_handed_it_on(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        read_task(str(tmp_path / "pipe"), prompt=None, read_stdin=never)
    reader, writer = os.pipe()
    os.write(writer, b"do it")
    os.close(writer)
    task = read_task(f"/dev/fd/{reader}", prompt=None, read_stdin=never)
    os.close(reader)
    assert task.body == "do it"
