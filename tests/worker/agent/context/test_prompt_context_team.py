"""What an agent is told of its team: by position, once, and never in another one's name."""

import json
from pathlib import Path

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.contents.context_markers import is_harness_message
from swarm.mailbox.protocol.items import Message, OutputText, text_message, text_of
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.worker.agent.context.context_blocks import (
    MAX_SUBAGENTS,
    EnvironmentFacts,
    environment_text,
    permissions_text,
    spawned_text,
    team_text,
)
from swarm.worker.agent.context.prompt_context import (
    KnownContext,
    context_items,
    find_known_context,
)
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.gateway import chat_request
from swarm.worker.gateway.request_encoding import EncodingContext, HeadKey, RequestHeadCache
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.interface.team_client import TeamClient

PLACE = EnvironmentFacts(cwd="/w", date="2026-04-22")
MODEL = ModelInfo(slug="m", provider="p", wire="responses")
SMALL = msgspec.structs.replace(MODEL, short_prompt=True)
ROOT = with_fields(FAKE_AGENT_SPEC, can_spawn=True, max_agents=9, user_instructions="Be kind.")
CHILD = with_fields(ROOT, path="/root/a", depth=1, role=RoleBrief(developer_instructions="DEV"))


@pytest.mark.parametrize(
    ("spec", "start", "may_grow"),
    [
        (ROOT, "<team>\nYou are `/root`", True),
        (CHILD, "<team>\nYou are an agent newly started", True),
        (msgspec.structs.replace(CHILD, path="/root/a/b/c", depth=3), "<team>\nYou are an", False),
        (with_fields(CHILD, can_spawn=False), "<team>\nYou are an agent newly", False),
        (with_fields(ROOT, limits=Limits(max_depth=0)), "", False),
        (FAKE_AGENT_SPEC, "", False),
    ],
)
def test_what_is_told_depends_on_the_position_in_the_tree(spec, start, may_grow):
    text = team_text(spec)
    assert text.startswith(start)
    assert bool(text) == bool(start)
    assert ("Start agents only when" in text) == may_grow
    assert ("9 agents can be alive at once, you included" in text) == may_grow
    assert "{" not in text
    assert len(text) < 2_200


def test_the_teams_text_stands_between_the_rights_and_the_role_and_the_own_path_comes_last():
    items, told = context_items(CHILD, place=PLACE, model=MODEL, known=KnownContext())
    permissions = permissions_text(CHILD.limits, cwd="/w")
    assert items[0] == text_message("developer", permissions, team_text(CHILD), "DEV")
    assert items[1].role == "user"
    assert items[1].content[-1].text == (
        "<spawned_agent_context>\nYou are `/root/a`; `/root` started you.\n</spawned_agent_context>"
    )
    assert is_harness_message(items[1])
    assert find_known_context(items, cwd="/w") == told
    assert context_items(CHILD, place=PLACE, model=MODEL, known=told) == ((), told)


def test_a_child_with_its_parents_history_begins_all_the_same_and_repeats_nothing():
    parent, _ = context_items(ROOT, place=PLACE, model=MODEL, known=KnownContext())
    taken_over = (*parent, text_message("user", "do"))
    items, told = context_items(
        CHILD, place=PLACE, model=MODEL, known=find_known_context(taken_over, cwd="/w")
    )
    own = text_message("user", spawned_text(CHILD))
    assert items == (text_message("developer", team_text(CHILD), "DEV"), own)
    deeper = msgspec.structs.replace(CHILD, path="/root/a/b", depth=2)
    again, _ = context_items(
        deeper, place=PLACE, model=MODEL, known=find_known_context((*taken_over, *items), cwd="/w")
    )
    own = text_message("user", spawned_text(deeper))
    assert again == (text_message("developer", team_text(deeper), "DEV"), own)
    assert context_items(CHILD, place=PLACE, model=MODEL, known=told)[0] == ()


def test_a_child_of_an_older_journal_is_not_told_again_who_it_is():
    block = "<spawned_agent_context>\nYou are `/root/a`, an agent newly started in a team.\n…"
    told = find_known_context((text_message("developer", "P", block, "DEV"),), cwd="/w")
    items, _ = context_items(CHILD, place=PLACE, model=MODEL, known=told)
    assert not any("DEV" in text_of(item.content) for item in items)
    sibling = msgspec.structs.replace(CHILD, path="/root/ab")
    items, _ = context_items(sibling, place=PLACE, model=MODEL, known=told)
    assert any("DEV" in text_of(item.content) for item in items)


def test_a_small_model_is_told_nothing_of_teams():
    assert context_items(ROOT, place=PLACE, model=SMALL, known=KnownContext())[0] == ()
    items, told = context_items(CHILD, place=PLACE, model=SMALL, known=KnownContext())
    assert items == (text_message("developer", "DEV"),)
    assert context_items(CHILD, place=PLACE, model=SMALL, known=told)[0] == ()


def test_on_the_chat_wire_a_mail_is_never_taken_for_the_models_own_words():
    mail_item = Message(role="assistant", content=(OutputText(text="NEWS"),), author="/root/a")
    store = chat_request.ChatStore(
        EncodingContext(blobs_dir=Path("/nowhere"), model=MODEL),
        RequestHeadCache(chat_request.encode_head),
    )
    for item in (mail_item, text_message("assistant", "mine")):
        store.append(item)
    body = json.loads(b"".join(store.body(HeadKey(model=MODEL, instructions="I"), "agent")))
    assert [(one["role"], one["content"]) for one in body["messages"][1:]] == [
        ("user", "NEWS"),
        ("assistant", "mine"),
    ]


def test_of_many_children_the_environment_names_the_newest_and_counts_the_others():
    team = TeamClient(CurrentSpec(ROOT), None, None)
    for number in range(40):
        team.children[f"/root/a{number:02}"] = "Euler" if number == 39 else ""
    named = team.list_children(newest=MAX_SUBAGENTS)
    assert named == (*((f"a{number:02}", "") for number in range(8, 39)), ("a39", "Euler"))
    assert len(team.list_children()) == 40
    text = environment_text(msgspec.structs.replace(PLACE, subagents=named, older_subagents=8))
    assert "    - a39: Euler\n    - and 8 older ones; list_agents names them\n" in text
    assert "older" not in environment_text(msgspec.structs.replace(PLACE, subagents=named))
