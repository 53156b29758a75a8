"""The panel where a person answers: every key, and that nothing is answered blindly."""

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    CommandAction,
    LossPreview,
    NetworkAction,
    PendingApproval,
    PersonQuestion,
    QuestionOption,
    QuestionsAction,
)
from swarm.mailbox.protocol.control import ResolveApproval, RunView
from swarm.supervisor.clients.console.approval_panel import ApprovalPanel
from swarm.supervisor.clients.console.approval_prompt import (
    KEYS_IGNORED_S,
    PromptState,
    apply_reply,
    foot_lines,
    handle_key,
    panel_lines,
    show_panel,
    take_whole,
    update_queue,
)


def pending(name="a1", *, agent="/root/a", reviewer="person", **more) -> PendingApproval:
    action = CommandAction(argv=("rm", "-rf", "build"), cwd="/w", script="rm -rf build")
    request = ApprovalRequest(**{"action": action, "cause": "dangerous", "keys": ("k",), **more})
    return PendingApproval(approval_id=name, agent=agent, request=request, reviewer=reviewer)


HOST = pending(
    action=NetworkAction(host="h", port=443, protocol="https"), cause="network", keys=("h",)
)
RULE = pending(proposed_prefix=("rm",))
ONCE = pending(keys=())
QUESTION = pending(
    action=QuestionsAction(
        questions=(
            PersonQuestion(
                id="colour", header="Colour", question="Which one?",
                options=(QuestionOption(label="red"), QuestionOption(label="green")),
            ),
            PersonQuestion(id="size", header="Size", question="How big?", options=()),
        )
    ),
    cause="question",
)  # fmt: skip


def drawn(state: PromptState, *, width: int = 80, height: int = 40) -> PromptState:
    """The same, after a person could see it."""
    return show_panel(state, width=width, height=height).state


def asked(*waiting: PendingApproval) -> PromptState:
    return drawn(update_queue(PromptState(), waiting, now=0.0))


def press(state: PromptState, keys: list[str], *, now: float = 1.0):
    resolution = None
    for key in keys:
        stepped = handle_key(drawn(state), key, now=now)
        state, resolution = stepped.state, resolution or stepped.resolution
    return state, resolution


def answer(**more) -> ResolveApproval:
    return ResolveApproval(approval_id="a1", **more)


NO = [*"not now"]


@pytest.mark.parametrize(
    ("entry", "keys", "resolution"),
    [
        (RULE, ["y"], answer(approve=True)),
        (RULE, ["s"], answer(approve=True, scope="session")),
        (RULE, ["t"], answer(approve=True, scope="subtree")),
        (RULE, ["a"], answer(approve=True, scope="always")),
        (RULE, ["n"], answer(approve=False)),
        (RULE, ["x"], answer(approve=False, abort=True)),
        (RULE, ["d", *NO, "enter"], answer(approve=False, reason="not now")),
        (RULE, ["d", "o", "backspace", *"y", "enter"], answer(approve=False, reason="y")),
        (RULE, ["d", *"no", "esc"], None),
        (RULE, ["d", *"no", "esc", "y"], answer(approve=True)),
        (RULE, ["enter"], None),
        (RULE, [" ", "Y", "up", "é"], None),
        (pending(), ["a"], None),
        (ONCE, ["s"], None),
        (ONCE, ["t"], None),
        (HOST, ["t"], None),
        (HOST, ["a"], answer(approve=True, scope="always")),
        (QUESTION, ["y"], None),
        (QUESTION, ["3"], None),
        (QUESTION, ["2"], None),
        (QUESTION, ["2", "o", *"ten", "enter"],
         answer(approve=True, answers={"colour": ("green",), "size": ("ten",)})),
        (QUESTION, ["o", "enter"], None),
        (QUESTION, ["n"], answer(approve=False)),
    ],
)  # fmt: skip
def test_each_key_means_one_answer_and_only_where_it_is_offered(entry, keys, resolution):
    assert press(asked(entry), keys)[1] == resolution


def test_a_key_that_comes_too_soon_is_no_answer():
    state = asked(RULE)
    assert handle_key(state, "y", now=KEYS_IGNORED_S - 0.01).resolution is None
    assert handle_key(state, "y", now=KEYS_IGNORED_S).resolution is not None


def test_one_answer_is_sent_once_and_after_a_refusal_again():
    state, resolution = press(asked(RULE), ["y"])
    assert resolution is not None
    assert press(state, ["n", "y"])[1] is None
    state = apply_reply(state, "a1", "others may write it", refused=True)
    assert "others may write it" in "\n".join(panel_lines(state))
    assert press(state, ["n"])[1] == answer(approve=False)


def test_the_question_that_stands_there_stays_until_it_is_over():
    first, second = pending("a5"), pending("a2")
    state = update_queue(asked(first), (second, first), now=9.0)
    assert [one.approval_id for one in state.queue] == ["a5", "a2"]
    assert state.ready_at == KEYS_IGNORED_S
    after = update_queue(state, (second,), now=9.0)
    assert (after.current, after.ready_at) == (second, 9.0 + KEYS_IGNORED_S)
    assert update_queue(after, (), now=9.0).current is None


def test_what_the_reviewer_looks_at_is_not_asked_here():
    assert asked(pending(reviewer="guardian")).current is None


def test_the_panel_tells_what_would_be_lost_and_which_rule_is_saved():
    preview = LossPreview(
        summary="214 files (3.1 MB) below build/", count=214, paths=("build/a",), kept=True
    )
    state = asked(pending(proposed_prefix=("rm",), preview=preview), ONCE)
    text = "\n".join([*panel_lines(state), *foot_lines(state, width=60)])
    assert max(len(line) for line in foot_lines(state, width=60)) <= 60
    for words in (
        "a1 /root/a wants to run a command (1 more waits)", "  rm -rf build",
        "it removes files by force", "in /w", "it would lose: 214 files", "swarm undo",
        "a always: saves a rule for `rm`", "x no, and end its turn",
    ):  # fmt: skip
        assert words in text


def test_the_keys_fit_the_screen_also_with_a_long_rule():
    state = asked(pending(proposed_prefix=("git", "commit", "--message", "x" * 200)), ONCE)
    for width in (40, 80):
        lines = foot_lines(state, width=width)
        assert max(len(line) for line in lines) <= width
        assert "a always: saves a rule for `git commit" in " ".join(" ".join(lines).split())


def test_the_question_of_the_selected_agent_comes_first_unless_one_answers_already():
    mine, other = pending("a1", agent="/root/a"), pending("a2", agent="/root/b")
    state = asked(mine)
    chosen = update_queue(state, (mine, other), now=9.0, first="/root/b")
    assert [one.approval_id for one in chosen.queue] == ["a2", "a1"]
    assert chosen.ready_at == 9.0 + KEYS_IGNORED_S
    begun, _ = press(state, ["d", "w"])
    kept = update_queue(begun, (mine, other), now=9.0, first="/root/b")
    assert [one.approval_id for one in kept.queue] == ["a1", "a2"]
    assert kept.typed == "w"


def command(script: str, **more) -> PendingApproval:
    return pending(action=CommandAction(argv=("sh", "-c", script), cwd="/w", script=script, **more))


LONG = command("\n".join([*(f"true {number}" for number in range(50)), "rm -rf /precious"]))


def test_all_of_a_command_is_shown_page_by_page_and_no_yes_counts_before_its_end():
    state, pages = update_queue(PromptState(), (LONG,), now=0.0), list[str]()
    while "  | rm -rf /precious" not in pages:
        for key in ("y", "s", "t", "a", " "):
            shown = show_panel(state, width=60, height=16)
            assert len(shown.rows) + len(shown.foot) <= 16
            stepped = handle_key(shown.state, key, now=9.0)
            assert stepped.resolution is None, key
            state = stepped.state
        state = show_panel(state, width=60, height=16).state
        pages += show_panel(state, width=60, height=16).rows
    assert {f"  | true {number}" for number in range(10, 50)} <= set(pages)
    assert handle_key(state, "y", now=9.0).resolution == answer(approve=True)


@pytest.mark.parametrize(("key", "more"), [("n", {}), ("x", {"abort": True})])
def test_a_no_counts_before_anything_was_read(key, more):
    state = update_queue(PromptState(), (LONG,), now=0.0)
    assert handle_key(state, key, now=9.0).resolution == answer(approve=False, **more)


def test_pages_that_were_skipped_were_not_seen():
    state = drawn(update_queue(PromptState(), (LONG,), now=0.0), width=60, height=16)
    state = drawn(replace(state, top=10_000), width=60, height=16)
    assert handle_key(state, "y", now=9.0).resolution is None


def test_a_window_without_room_for_the_question_takes_no_yes():
    state = drawn(update_queue(PromptState(), (RULE,), now=0.0), height=2)
    assert handle_key(state, "y", now=9.0).resolution is None
    assert handle_key(state, "n", now=9.0).resolution is not None


def test_a_part_of_a_question_is_no_question_until_the_whole_has_come():
    short = replace(LONG, is_short=True)
    state = asked(short)
    assert handle_key(state, "y", now=9.0).resolution is None
    state = drawn(take_whole(state, LONG), height=90)
    state = drawn(update_queue(state, (short,), now=9.0), height=90)
    assert handle_key(state, "y", now=9.0).resolution == answer(approve=True)


def test_what_is_wider_than_the_window_goes_on_in_marked_rows():
    entry = command("echo " + "a" * 100 + "; id")
    rows = show_panel(asked(entry), width=40, height=40).rows
    assert max(map(len, rows)) <= 40
    assert rows[1:4] == ("  echo " + "a" * 33, "  ↳ " + "a" * 36, "  ↳ " + "a" * 31 + "; id")


def test_no_text_of_a_model_steers_the_terminal():
    nasty = "\x1b[2J\x1b]0;t\x07\u202e" + "x\r\ny"
    entry = pending(
        action=CommandAction(argv=("sh",), cwd=nasty, script=nasty), reason=nasty,
        proposed_prefix=(nasty,), preview=LossPreview(summary=nasty, paths=(nasty,)),
    )  # fmt: skip
    state = asked(entry)
    for line in (*panel_lines(state), *foot_lines(state, width=80)):
        assert line.isprintable()


class PanelDriver:
    """Somebody who types, and somebody who hears the answers."""

    def __init__(self) -> None:
        self.said: list[ResolveApproval] = []
        self.view = RunView()
        self.panel = ApprovalPanel(self._answer, self._fetch)

    async def _answer(self, resolution: ResolveApproval) -> tuple[str, bool]:
        self.said.append(resolution)
        return "", False

    async def _fetch(self, approval_id: str) -> PendingApproval | None:
        return None

    def show(self, *waiting: PendingApproval) -> None:
        self.view = RunView(approvals=waiting)
        self.panel.note_change()

    def taken(self, *keys: str) -> list[str]:
        return [key for key in keys if self.panel.accepts_key(key)]


async def test_keys_are_taken_only_while_something_waits(autojump_clock):
    driver = PanelDriver()
    keys = ("y", "s", "1", "up", "enter", "esc", "page_up")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.panel.run, lambda: driver.view, lambda: None)
        await wait_all_tasks_blocked()
        assert driver.taken(*keys) == []
        assert driver.panel.render_lines(width=80, height=20) == []
        driver.show(pending())
        await wait_all_tasks_blocked()
        assert driver.taken(*keys) == ["y", "s", "1"], "the others lead through the tree"
        lines = driver.panel.render_lines(width=30, height=6)
        assert 1 < len(lines) <= 6
        assert driver.panel.render_lines(width=80, height=12)
        assert all(len("".join(cell.text for cell in line)) <= 30 for line in lines)
        driver.panel.handle_key("y")
        await wait_all_tasks_blocked()
        assert driver.said == [], "a key that comes so soon was meant for something else"
        await trio.sleep(KEYS_IGNORED_S)
        driver.panel.handle_key("d")
        assert driver.taken(*keys) == [*keys], "while one types, all keys are text"
        driver.panel.handle_key("esc")
        assert driver.panel.render_lines(width=80, height=12)
        driver.panel.handle_key("y")
        await wait_all_tasks_blocked()
        driver.show()
        await wait_all_tasks_blocked()
        assert driver.taken(*keys) == []
        nursery.cancel_scope.cancel()
    assert driver.said == [answer(approve=True)]
