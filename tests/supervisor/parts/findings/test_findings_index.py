"""What may be published, what is known already, and what a search finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.parts.findings.finding_messages import PublishFinding, RecallFindings
from swarm.mailbox.protocol.values.findings import Finding
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.parts.findings.findings_index import (
    MAX_FINDINGS,
    MAX_OF_ONE_AGENT,
    MAX_RECALLED,
    FindingsIndex,
    place_of,
)

FACTS = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=1).map(" ".join)


def publish(index: FindingsIndex, author: str, fact: str, **more: str) -> Finding:
    finding = index.accept(author, "/w/src", PublishFinding(fact=fact, **more))
    index.add_written(finding)
    return finding


def found(index: FindingsIndex, query: str) -> list[int]:
    return [one.number for one in index.search(RecallFindings(query=query)).findings]


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("a.py", "src/a.py"),
        ("../b.py", "b.py"),
        ("/w/c.py", "c.py"),
        ("/other/d.py", "/other/d.py"),
        ("../../e.py", "/e.py"),
        ("", ""),
        ("  ", ""),
    ],
)
def test_a_file_is_named_as_all_agents_may_name_it(file, shown):
    assert place_of(file, "/w/src", "/w") == shown


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"fact": " \n"}, "fact must not be empty"),
        ({"fact": "x" * 501}, "fact has 501 characters, 500 are the limit"),
        ({"file": "a\nb"}, "file must be one path"),
        ({"file": "x" * 301}, "file must be one path"),
        ({"lines": "3"}, "lines must be a number or a range"),
        ({"file": "a", "lines": "3-"}, "lines must be a number or a range"),
        ({"file": "a", "lines": "0"}, "lines must be a number or a range"),
        ({"file": "a", "lines": "x"}, "lines must be a number or a range"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_rule(change, text):
    index = FindingsIndex("/w")
    with pytest.raises(AgentRequestError, match=text):
        index.accept("/root/a", "/w", PublishFinding(**{"fact": "f", **change}))
    assert publish(index, "/root/a", "f").number == 1


def test_a_finding_is_one_line_with_its_place():
    finding = publish(
        FindingsIndex("/w"),
        "/root/a",
        " The\n- #9 /root\x1b[31m lexer ",
        file="lex.py",
        lines="3-9",
    )
    assert finding == Finding(
        number=1, author="/root/a", fact="The - #9 /root [31m lexer", file="src/lex.py", lines="3-9"
    )
    assert finding.place == "src/lex.py:3-9"


def test_what_was_said_of_the_same_place_is_known_whoever_says_it_and_before_it_is_written():
    index = FindingsIndex("/w")
    first = index.accept("/root/a", "/w", PublishFinding(fact="It leaks", file="src/x.py"))
    same = PublishFinding(fact=" It  leaks", file="x.py")
    assert index.find_known(same, "/w/src") == first
    assert found(index, "leaks") == []  # nobody reads it before it is written
    for other in (
        PublishFinding(fact="It leaks not", file="x.py"),
        PublishFinding(fact="It leaks", file="y.py"),
        PublishFinding(fact="It leaks", file="x.py", lines="3"),
        PublishFinding(fact="It leaks"),
    ):
        assert index.find_known(other, "/w/src") is None


def test_one_agent_and_all_agents_have_a_bound():
    index = FindingsIndex("/w")
    for number in range(MAX_OF_ONE_AGENT):
        publish(index, "/root/a", f"fact {number}")
    with pytest.raises(AgentRequestError, match="Put the rest into your final answer"):
        publish(index, "/root/a", "one more")
    for number in range(MAX_OF_ONE_AGENT, MAX_FINDINGS):
        publish(index, f"/root/{number // MAX_OF_ONE_AGENT}", f"fact {number}")
    with pytest.raises(AgentRequestError, match="not published"):
        publish(index, "/root/last", "one more")


def test_a_search_gives_the_best_and_newest_first_and_counts_the_others():
    index = FindingsIndex("/w")
    publish(index, "/root/a", "the lexer keeps state")
    publish(index, "/root/b", "the parser calls the lexer", file="parse.py")
    publish(index, "/root/a", "tests need a display")
    assert found(index, "LEXER, state?") == [1, 2]
    assert found(index, "lexer") == [2, 1]
    assert found(index, "src/parse.py") == [2]
    assert found(index, "/root/a") == [3, 1]
    assert found(index, "") == [3, 2, 1]
    assert found(index, "nothing") == []
    for number in range(MAX_RECALLED):
        publish(index, "/root/c", f"more {number}")
    assert index.search(RecallFindings()).more == 3


@given(st.lists(st.tuples(st.sampled_from(["/root/a", "/root/b"]), FACTS), max_size=30))
def test_after_a_resume_the_index_answers_as_before(published):
    before = FindingsIndex("/w")
    for author, fact in published:
        if before.find_known(PublishFinding(fact=fact), "/w") is None:
            publish(before, author, fact)
    after = FindingsIndex("/w")
    after.restore(before.written)
    for query in ("", "alpha", "beta gamma", "/root/a"):
        request = RecallFindings(query=query)
        assert after.search(request) == before.search(request)
    for _, fact in published:
        assert after.find_known(PublishFinding(fact=fact), "/w") is not None
    numbers = [one.number for one in after.written]
    assert numbers == list(range(1, len(numbers) + 1))
    assert publish(after, "/root/c", "new").number == len(numbers) + 1
