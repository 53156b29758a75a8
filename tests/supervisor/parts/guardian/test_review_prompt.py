"""What a reviewer is asked: the layout, what is new since the last time, the action as JSON."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    LossPreview,
    NetworkAction,
    PatchAction,
    PermissionsAction,
    QuestionsAction,
)
from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.supervisor.parts.guardian.review_prompt import (
    NotReviewable,
    ReadCursor,
    ReviewCase,
    action_object,
    build_prompt,
    render_action,
)
from swarm.supervisor.parts.guardian.review_transcript import (
    EMPTY,
    EMPTY_DELTA,
    TranscriptEntry,
    cut_middle,
)
from swarm.supervisor.parts.guardian.reviewer_session import brief_for, instructions, profile_for
from swarm.supervisor.request.run_request import ReviewSettings

COMMAND = CommandAction(argv=("bash", "-lc", "rm -rf build"), cwd="/w")


def request(action=COMMAND, **more):
    return ApprovalRequest(action=action, cause="dangerous", turn_id="t1", **more)


def said(*texts):
    return tuple(TranscriptEntry(kind="user", role="user", text=text) for text in texts)


def whole(prompt):
    return "\n".join(prompt.parts)


def test_a_first_request_shows_the_whole_transcript_and_the_action_last():
    asked = request(
        reason="clean", retry_reason="no\nspace", preview=LossPreview(summary="3 files")
    )
    prompt = build_prompt(
        ReviewCase(agent="/root", cwd="/w", request=asked, entries=said("a", "b"))
    )
    text = whole(prompt)
    order = (
        ">>> TRANSCRIPT START\n[1] user: a\n\n[2] user: b\n>>> TRANSCRIPT END",
        "Reviewed agent: /root",
        ">>> APPROVAL REQUEST START",
        "Retry reason:\n    no\n    space\n",
        "it removes files by force",
        '"summary": "3 files"',
        "Planned action JSON:",
        ">>> APPROVAL REQUEST END",
    )
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert not prompt.delta
    assert prompt.cursor == ReadCursor(version=0, seen=2)


def test_the_next_request_shows_only_what_is_new_and_goes_on_counting():
    case = ReviewCase(agent="/root", cwd="/w", request=request(), entries=said("a", "b", "c"))
    prompt = build_prompt(case, ReadCursor(version=0, seen=2))
    assert ">>> TRANSCRIPT DELTA START\n[3] user: c\n>>> TRANSCRIPT DELTA END" in whole(prompt)
    assert prompt.delta
    assert EMPTY_DELTA in whole(build_prompt(case, ReadCursor(version=0, seen=3)))


@pytest.mark.parametrize(
    "cursor",
    [
        None,
        ReadCursor(version=1, seen=1),  # the history was replaced since
        ReadCursor(version=0, seen=9),  # it has shrunk
        # The person said something else to the root.
        ReadCursor(version=0, seen=1, handed=b"other"),
    ],
)
def test_a_cursor_that_no_longer_fits_shows_everything_again(cursor):
    case = ReviewCase(agent="/root/a", cwd="/w", request=request(), entries=said("a", "b"))
    prompt = build_prompt(case, cursor)
    assert not prompt.delta
    assert "[1] user: a" in whole(prompt)


def test_an_empty_history_is_said_to_be_empty():
    assert EMPTY in whole(build_prompt(ReviewCase(agent="/root", cwd="/w", request=request())))


def test_a_childs_review_begins_with_the_persons_words_to_the_root():
    handed = (TranscriptEntry(kind="user", role="user to /root", text="port it"),)
    case = ReviewCase(
        agent="/root/a", cwd="/w", request=request(), handed=handed, entries=said("do half")
    )
    prompt = build_prompt(case)
    assert "[1] user to /root: port it\n\n[2] user: do half" in whole(prompt)
    assert build_prompt(case, prompt.cursor).delta


ACTIONS = [
    (
        request(reason="tidy", action=msgspec.structs.replace(COMMAND, tty=True)),
        {
            "tool": "exec_command", "command": ["bash", "-lc", "rm -rf build"], "cwd": "/w",
            "sandbox_permissions": "use_default", "sandboxed": True, "tty": True,
            "justification": "tidy",
        },
    ),
    (
        request(
            CommandAction(
                argv=("git",), cwd="/w", tool="shell", permissions="with_additional_permissions",
                extra=ExtraPermissions(write=("/x",)), sandboxed=False, commits_in="/w",
            )
        ),
        {
            "tool": "shell", "command": ["git"], "cwd": "/w", "sandboxed": False,
            "sandbox_permissions": "with_additional_permissions", "writes_repository": "/w",
            "additional_permissions": {"network": False, "read": [], "write": ["/x"]},
        },
    ),
    (
        request(
            CommandAction(
                argv=("bash", "-c", "cat"), cwd="/w", tool="write_stdin", script="a", tty=True,
                sandboxed=False,
            )
        ),
        {
            "tool": "write_stdin", "chars": "a", "command": ["bash", "-c", "cat"], "cwd": "/w",
            "sandboxed": False, "sandbox_permissions": "use_default",
        },
    ),
    (
        request(
            PatchAction(
                cwd="/w", files=("/etc/hosts",),
                changes=(FileChange(path="/etc/hosts", kind="update", unified_diff="+x"),),
            )
        ),
        {
            "tool": "apply_patch", "cwd": "/w", "files": ["/etc/hosts"],
            "patch": "update /etc/hosts\n+x",
        },
    ),
    (
        request(NetworkAction(host="a.example", port=443, protocol="https", trigger="curl a")),
        {
            "tool": "network_access", "target": "https://a.example:443", "host": "a.example",
            "protocol": "https", "port": 443, "trigger": "curl a",
        },
    ),
    (
        request(PermissionsAction(permissions=ExtraPermissions(network=True)), reason="docs"),
        {
            "tool": "request_permissions", "turn_id": "t1", "reason": "docs",
            "permissions": {"network": True, "read": [], "write": []},
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "expected"), ACTIONS, ids=lambda value: type(value).__name__)
def test_each_kind_of_action_has_its_json(asked, expected):
    assert action_object(asked) == expected
    text = render_action(asked)
    assert msgspec.json.decode(text) == expected
    assert text == msgspec.json.format(msgspec.json.encode(expected, order="sorted")).decode()


def test_a_question_to_a_person_is_not_reviewed():
    with pytest.raises(NotReviewable):
        render_action(request(QuestionsAction(questions=())))


def test_a_long_string_is_cut_in_the_middle():
    script = "a" * 70_000 + "END"
    shown = msgspec.json.decode(render_action(request(CommandAction(argv=(script,), cwd="/w"))))
    assert shown["command"] == [cut_middle(script, limit_tokens=16_000)]
    assert shown["command"][0].endswith("END")


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_no_text_of_an_action_begins_a_line_of_the_prompt(text):
    asked = request(
        CommandAction(argv=(text,), cwd=text), reason=text, retry_reason=text,
        preview=LossPreview(summary=text, paths=(text,)),
    )  # fmt: skip
    plain = build_prompt(ReviewCase(agent="/root", cwd="/w", request=request()))
    own = {line for line in whole(plain).splitlines() if not line.startswith(" ")}
    own |= {"Retry reason:", "What a dry run found:"}
    prompt = build_prompt(ReviewCase(agent="/root", cwd="/w", request=asked))
    assert {line for line in whole(prompt).splitlines() if not line.startswith(" ")} <= own


def test_a_policy_of_ones_own_takes_the_place_of_the_built_in_one_alone():
    ours, theirs = instructions(), instructions("## House rules\nNever push.")
    assert "Never push." in theirs
    assert "## Data leaving" in ours
    assert "## Data leaving" not in theirs
    assert instructions("  \n") == ours
    before, after = ours.split("# Policy\n")[0], ours.split("# Your answer\n")[1]
    assert theirs.startswith(before)
    assert theirs.endswith(after)


def test_a_reviewer_is_locked_and_uses_the_model_of_the_one_who_asks_unless_told_another():
    profile = profile_for(ReviewSettings(), model=ModelReference(model="m"), cwd="/w")
    assert profile.model_settings == ModelSettings(model="m", effort="low")
    other = ModelReference(provider="p", model="m")
    own = profile_for(ReviewSettings(model="r"), model=other, cwd="/w")
    assert own.model_settings == ModelSettings(model="r", effort="low")
    brief = brief_for(profile)
    assert brief.locked
    assert brief.developer_instructions == ""
