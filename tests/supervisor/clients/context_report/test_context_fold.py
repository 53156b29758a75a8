"""A context report says what the newest request was made of, and adds up to what was counted."""

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.contents.context_markers import GUIDANCE_START, SKILL_START, SKILLS_START
from swarm.mailbox.protocol.context_sizes import HeadSizes, TextSize
from swarm.mailbox.protocol.events import TokenCount, TurnStarted
from swarm.mailbox.protocol.items import (
    AnyItem,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Reasoning,
    TokenUsage,
    text_message,
)
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    AnyRecordBody,
    ContextRecorded,
    ItemRecorded,
    Record,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.clients.console.context_page import context_lines
from swarm.supervisor.clients.console.theme import UNICODE_GLYPHS
from swarm.supervisor.clients.context_report.context_fold import ContextReport, fold_context

ROOT = "/root"
MODEL = ModelInfo(slug="m", provider="p", wire="chat")
HEAD = HeadSizes(
    instructions_bytes=4_000,
    tools=(
        TextSize(name="exec_command", size_bytes=400),
        TextSize(name="mcp__git__log", size_bytes=100),
        TextSize(name="mcp__git__show", size_bytes=300),
    ),
    guidance_files=(TextSize(name="/w/AGENTS.md", size_bytes=40),),
)
SKILLS = f"{SKILLS_START}\nRead them.\n- notes: Write. (file: /w/notes/SKILL.md)\n"
GUIDANCE = f"{GUIDANCE_START}/w\n\n{'x' * 60}"


def records(*bodies: AnyRecordBody) -> list[Record]:
    return [
        Record(seq=number, ts=0.0, body=body, agent=ROOT) for number, body in enumerate(bodies, 1)
    ]


def item(value: AnyItem, source: str = "context") -> ItemRecorded:
    recorded = ItemRecorded(turn_id="t", item=value, item_id="i")
    return recorded if source == "model" else ItemRecorded(
        turn_id="t", item=value, item_id="i", source="user"
    )  # fmt: skip


def counted(tokens: int, head: HeadSizes | None = None) -> TokenCount:
    usage = TokenUsage(total_tokens=tokens)
    return TokenCount(
        turn_id="t",
        last=usage,
        total=usage,
        context_tokens=tokens,
        context_window=10_000,
        head=head,
    )


BEGUN = (
    AgentSpawned(agent_id="a", path=ROOT, epoch=1, pid=1, cwd="/w"),
    TurnStarted(turn_id="t", model=MODEL),
    item(text_message("developer", "<permissions instructions>…", SKILLS, "The role's words.")),
    item(text_message("user", GUIDANCE, "<environment_context>…")),
    item(text_message("user", "Use $notes.")),
    item(text_message("user", f"{SKILL_START}\n<path>/w/notes/SKILL.md</path>\n…")),
)
ANSWERED = (
    item(Reasoning(summary=("I look.",)), "model"),
    item(FunctionCall(call_id="1", name="exec_command", arguments="{}"), "model"),
    counted(2_000, HEAD),
    item(FunctionCallOutput(call_id="1", output="y" * 400)),
)


def fold(*bodies: AnyRecordBody) -> ContextReport:
    return fold_context(records(*bodies), agent=ROOT)


def sources(report: ContextReport, group: str) -> list[str]:
    return [part.source for part in report.parts if part.group == group]


def test_each_part_names_the_file_or_server_that_it_comes_from():
    report = fold(*BEGUN, *ANSWERED)
    assert sources(report, "mcp_tools") == ["git"]
    assert sources(report, "skills") == ["", "/w/notes/SKILL.md"]
    assert sources(report, "agents_md") == ["/w/AGENTS.md", ""]
    assert sources(report, "skill_texts") == ["/w/notes/SKILL.md"]
    assert sources(report, "outputs") == ["exec_command"]
    assert {part.group for part in report.parts} >= {"permissions", "role", "environment", "person"}


def test_what_was_sent_adds_up_to_the_servers_count_and_the_rest_is_an_estimate():
    report = fold(*BEGUN, *ANSWERED)
    assert report.counted
    assert sum(part.tokens for part in report.parts if part.is_sent) == 2_000
    assert report.waiting_tokens == 100
    assert report.left_tokens == 10_000 - 2_100


def test_a_count_without_a_head_keeps_the_one_before():
    assert fold(*BEGUN, *ANSWERED, counted(2_500)).head_known
    assert not fold(*BEGUN).head_known


def test_after_a_compaction_the_sum_is_an_estimate_until_a_model_has_answered():
    replaced = ContextRecorded(turn_id="t", items=(text_message("user", "z" * 400),))
    report = fold(*BEGUN, *ANSWERED, replaced)
    assert not report.counted
    assert report.sent_tokens == (4_800 + 400) // 4
    after = fold(*BEGUN, *ANSWERED, replaced, item(text_message("assistant", "a"), "model"),
                 counted(900))  # fmt: skip
    assert (after.counted, after.sent_tokens) == (True, 900)


def test_mail_of_agents_is_told_apart_from_answers():
    mail = Message(role="assistant", content=text_message("assistant", "hi").content, author="/x")
    report = fold(*BEGUN, item(mail), *ANSWERED)
    assert sources(report, "agents") == ["/x"]


@given(
    texts=st.lists(st.tuples(st.sampled_from(("user", "developer", "assistant")), st.text())),
    tokens=st.integers(0, 10**9),
    width=st.integers(20, 120),
)
def test_no_line_is_wider_than_the_page_and_no_byte_is_lost(
    texts: list[tuple[str, str]], tokens: int, width: int
):
    said = [
        item(Message(role=role, content=text_message("user", text).content))  # type: ignore[arg-type]
        for role, text in texts
    ]
    report = fold(*BEGUN, *said, counted(tokens, HEAD))
    assert sum(part.tokens for part in report.parts) == report.sent_tokens
    lines = context_lines(report, width=width, glyphs=UNICODE_GLYPHS)
    assert max(line.cell_len for line in lines) <= width or width < 40


def test_an_agent_that_has_asked_nothing_yet_says_so():
    lines = context_lines(fold(BEGUN[0]), width=80, glyphs=UNICODE_GLYPHS)
    assert [line.plain for line in lines] == ["/root has not asked a model yet"]
