"""Every promise that chaos checks can be broken: a sound run has no violation."""

import pytest
from chaos_scenario import AgentScript, PlannedCall, answer_text
from invariants import violations
from msgspec.structs import replace
from run_evidence import CommandStart, RunEvidence

from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction
from swarm.mailbox.protocol.events import CallBegan, CallEnded, OtherCall, TokenCount
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    TokenUsage,
)
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    ItemRecorded,
    MailPosted,
    ProcessEnded,
    Record,
    Reserved,
    RunCompleted,
    RunStarted,
)

CHILD, CALL = "/root/a", "root-a-0-escalate"
ASKED = PlannedCall(CALL, "escalate")
PLAY = {
    "/root": AgentScript("/root", (CHILD,), ((),)),
    CHILD: AgentScript(CHILD, (), (((ASKED,),), ())),
}
USED = TokenUsage(total_tokens=10)


def item(value, source="model", item_id="i"):
    return ItemRecorded(turn_id="t", item=value, item_id=item_id, source=source)


def words(text):
    return Message(role="assistant", content=(OutputText(text=text),))


MAIL = Mail(mail_id="m", author=CHILD, recipient="/root", content=answer_text(CHILD, 0),
              kind="final_answer", trigger_turn=True)  # fmt: skip
ACTION = ApprovalRequest(
    action=CommandAction(argv=("x",), cwd="/"), cause="escalation", call_id=CALL, reason="allow it"
)
TOLD = (
    ("", RunStarted(run_id="r", task="", title="", cwd="/", version="1")),
    ("/root", AgentSpawned(agent_id="1", path="/root", epoch=1, pid=1)),
    (CHILD, AgentSpawned(agent_id="2", path=CHILD, epoch=1, pid=2)),
    (CHILD, Reserved(agent_id="2", reservation="x", tokens=20)),
    (CHILD, ResponseBilled(agent_id="2", provider="p", model="m", usage=USED, reservation="x")),
    (CHILD, TokenCount(turn_id="t", last=USED, total=USED)),
    (CHILD, item(FunctionCall(call_id=CALL, name="exec_command", arguments="{}"))),
    (CHILD, ApprovalRequested(approval_id="a1", request=ACTION, reviewer="person")),
    (CHILD, ApprovalResolved(approval_id="a1", outcome="approved", by="person")),
    (CHILD, CallBegan(turn_id="t", call_id=CALL, tool="exec_command", detail=OtherCall())),
    (CHILD, CallEnded(turn_id="t", call_id=CALL, tool="exec_command", status="completed",
                      exit_code=0)),
    (CHILD, item(FunctionCallOutput(call_id=CALL, output="did"), "tool")),
    (CHILD, item(words(answer_text(CHILD, 0)))),
    (CHILD, AgentEnded(agent_id="2", state="completed", message=MAIL.content)),
    (CHILD, ProcessEnded(agent_id="2", epoch=1, pid=2, orderly=True)),
    ("/root", MailPosted(mail=MAIL)),
    ("/root", item(words(MAIL.content), "mail", "m")),
    ("/root", item(words(answer_text("/root", 0)))),
    ("/root", AgentEnded(agent_id="1", state="completed")),
    ("/root", ProcessEnded(agent_id="1", epoch=1, pid=1, orderly=True)),
    ("", RunCompleted(status="completed", result=answer_text("/root", 0), usage=USED)),
)  # fmt: skip


def facts(told=TOLD, **more):
    """What a run left in which these things were told, one after the other."""
    records = tuple(
        Record(seq=seq, ts=float(seq), agent=agent, body=body)
        for seq, (agent, body) in enumerate(told, start=1)
    )
    given = {
        "unsandboxed_calls": (CALL,), "person_answers": {("a1", "allow it"): True}, "served": 1,
        "starts": (CommandStart(0, ""),),
    }  # fmt: skip
    return RunEvidence(**{"play": PLAY, "max_agents": 2, "records": records, **given, **more})


def without(kind, agent=None):
    """All but the records of one kind."""
    return tuple(
        (who, body) for who, body in TOLD
        if not (isinstance(body, kind) and agent in (None, who))
    )  # fmt: skip


def twice(kind):
    """Each record of one kind is told again, at once."""
    return tuple(one for one in TOLD for _ in range(1 + isinstance(one[1], kind)))


def changed(kind, **fields):
    """The records of one kind with other fields."""
    return tuple(
        (who, replace(body, **fields) if isinstance(body, kind) else body) for who, body in TOLD
    )


def test_a_sound_run_breaks_no_promise():
    assert violations(facts()) == []


BROKEN = {
    "it hangs": (facts(ended_in_time=False), "the_run_ended"),
    "an end without a reason": (facts(starts=(CommandStart(1, "why"), CommandStart(0, ""))),
    "the_run_ended"),
    "a traceback": (facts(starts=(CommandStart(-9, "Traceback", was_killed=True),)),
    "the_run_ended"),
    "another result": (facts(changed(RunCompleted, result="?")), "the_run_ended"),
    "given up too soon": (facts(changed(AgentEnded, state="crashed")), "nobody_was_given_up"),
    "a wish given up": (facts(changed(AgentEnded, message="gave up: x")), "nobody_was_given_up"),
    "a command ran twice": (facts(unsandboxed_calls=(CALL, CALL)), "no_call_ran_twice"),
    "it ran in both places": (facts(sandboxed_calls=(CALL,)), "no_call_ran_twice"),
    "it ran unannounced": (facts(without(CallBegan)), "no_call_ran_twice"),
    "it began twice": (facts(twice(CallBegan)), "no_call_ran_twice"),
    "it is said to have run": (facts(unsandboxed_calls=()), "no_call_ran_twice"),
    "an MCP call is said to have run": (
        facts(
            changed(CallEnded, tool="mcp__counter__count", exit_code=None),
            unsandboxed_calls=(),
        ),
        "no_call_ran_twice",
    ),
    "declined, and it ran": (facts(changed(CallEnded, status="declined")), "no_call_ran_twice"),
    "no end of a call": (facts(without(CallEnded)), "calls_have_one_end"),
    "two ends of a call": (facts(twice(CallEnded)), "calls_have_one_end"),
    "an output is missing": (
        facts(tuple(x for x in TOLD if getattr(x[1], "source", "") != "tool")),
        "calls_have_one_end",
    ),
    "the parent never heard it": (
        facts(tuple(x for x in TOLD if getattr(x[1], "source", "") != "mail")),
        "results_arrived_once",
    ),
    "the answer was sent twice": (
        facts((*TOLD, ("/root", MailPosted(mail=replace(MAIL, mail_id="n"))))),
        "results_arrived_once",
    ),
    "the answer was not sent": (facts(without(MailPosted)), "results_arrived_once"),
    "an answer is missing": (
        facts(tuple(x for x in TOLD if x != TOLD[12])), "results_arrived_once",
    ),
    "a letter was posted twice": (facts(twice(MailPosted)), "mail_was_read_once"),
    "a letter was read twice": (facts((*TOLD, TOLD[16])), "mail_was_read_once"),
    "a letter was not read": (
        facts(tuple(x for x in TOLD if x != TOLD[16])), "mail_was_read_once",
    ),
    "a word was not heard": (
        facts(person_messages={"[[word 1]]": CHILD}), "person_messages_were_read_once",
    ),
    "a word was heard twice": (
        facts((*TOLD, *2 * ((CHILD, item(words("[[word 1]]"), "user")),))),
        "person_messages_were_read_once",
    ),
    "an item was not done": (
        facts(play={**PLAY, "/root/i": AgentScript("/root/i", (), ((),), is_item=True)}),
        "results_arrived_once",
    ),
    "nobody said yes": (facts(person_answers={}), "approvals_were_given"),
    "he said no": (facts(person_answers={("a1", "allow it"): False}), "approvals_were_given"),
    "no answer": (facts(without(ApprovalResolved)), "approvals_were_given"),
    "no question": (facts(without(ApprovalRequested)), "approvals_were_given"),
    "two answers": (facts(twice(ApprovalResolved)), "approvals_were_given"),
    "denied, and it ran": (facts(changed(ApprovalResolved, outcome="denied")),
                           "approvals_were_given"),
    "too many processes": (facts(max_agents=1), "slots_never_leaked"),
    "a slot is left": (facts(without(ProcessEnded)), "slots_never_leaked"),
    "two lives at once": (facts(twice(AgentSpawned)), "slots_never_leaked"),
    "a tokens' total is off": (
        facts(changed(TokenCount, total=TokenUsage(total_tokens=3))), "budgets_add_up",
    ),
    "the run's total is off": (
        facts(changed(RunCompleted, usage=TokenUsage(total_tokens=3))), "budgets_add_up",
    ),
    "an answer nobody paid for": (facts(served=2), "budgets_add_up"),
    "a bill is missing": (facts(without(ResponseBilled)), "budgets_add_up"),
    "a bill came twice": (facts(twice(ResponseBilled)), "budgets_add_up"),
    "paid without a grant": (facts(without(Reserved)), "budgets_add_up"),
    "a process is left": (facts(starts=(CommandStart(0, "", left=("x",)),)), "nothing_is_left"),
    "a file is left": (facts(left_files=("r/swarm/x",)), "nothing_is_left"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_named(name):
    broken, check = BROKEN[name]
    assert any(words.startswith(f"{check}: ") for words in violations(broken)), violations(broken)


def test_a_hole_and_a_double_in_the_journal_are_seen():
    records = facts().records
    assert any("missing" in one for one in violations(facts()._replace(records=records[1:])))
    double = (*records, records[-1])
    assert any("there twice" in one for one in violations(facts()._replace(records=double)))


def test_what_dies_four_times_in_a_minute_is_given_up_rightly():
    deaths = [
        (CHILD, body)
        for _ in range(4)
        for body in (
            AgentSpawned(agent_id="2", path=CHILD, epoch=1, pid=2),
            ProcessEnded(agent_id="2", epoch=1, pid=2),
        )
    ]
    given_up = (*TOLD[:2], *deaths, (CHILD, AgentEnded(agent_id="2", state="crashed")))
    assert not any(one.startswith("nobody_was") for one in violations(facts(given_up)))
    too_soon = (*TOLD[:2], *deaths[:6], (CHILD, AgentEnded(agent_id="2", state="crashed")))
    assert any(one.startswith("nobody_was") for one in violations(facts(too_soon)))


@pytest.mark.parametrize("again", ["/root/i_2", "/root/i_try2", "/root/i_try2_3"])
def test_an_attempt_at_an_item_counts_as_the_item_also_one_that_was_cut_off(again):
    item_part = AgentScript("/root/i", (), ((),), is_item=True)
    began = CallBegan(turn_id="t", call_id="root-i-0-run", tool="exec_command", detail=OtherCall())
    told = (*TOLD, (again, began), (again, item(words("[[word 1]]"), "user")))
    found = violations(facts(told, play={**PLAY, "/root/i": item_part},
                             person_messages={"[[word 1]]": "/root/i"}))  # fmt: skip
    assert not any(one.startswith(("calls_have", "words_were")) for one in found), found


GONE = "/state/runs/r"
NO_RUN = "swarm: there is no run yet; start one with `swarm run TASK.md`"


@pytest.mark.parametrize(
    ("starts", "is_sound"),
    [
        ((CommandStart(1, f"swarm: {GONE} is gone"),), True),
        ((CommandStart(1, "swarm: something else"),), False),
        ((CommandStart(1, f"Traceback: {GONE}"),), False),
        ((CommandStart(-9, "", was_killed=True),), True),
        ((CommandStart(-9, "", was_killed=True), CommandStart(2, NO_RUN)), True),
        ((CommandStart(2, NO_RUN),), False),
        ((), False),
    ],
)
def test_a_run_without_its_folder_says_so_and_a_resume_may_find_no_run(starts, is_sound):
    facts = RunEvidence({}, (), {}, starts=starts, vanished=GONE)
    assert (violations(facts) == []) is is_sound


@pytest.mark.parametrize(("times", "broken"), [(1, False), (2, False), (3, True)])
def test_a_tool_that_may_be_repeated_is_called_at_most_twice(times, broken):
    call = "root-c00-count_again"
    found = violations(facts(sandboxed_calls=(call,) * times))
    assert any(f"{call} ran {times} times" in one for one in found) is broken
