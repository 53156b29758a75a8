"""What a model is told first, what again only when it changes, and that it never varies."""

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.contents.context_markers import unlisted_count, unlisted_line
from swarm.mailbox.protocol.items import (
    InputImage,
    InputText,
    Message,
    OutputText,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.ops import ImageInput, Mail, TextInput
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ContextRules, RoleBrief
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Granular,
    Limits,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.worker.agent.context.context_blocks import (
    EnvironmentFacts,
    base_instructions,
    environment_text,
    guidance_text,
    mail_message,
    permissions_text,
    skills_text,
    turn_aborted_message,
    user_message,
)
from swarm.worker.agent.context.prompt_context import (
    KnownContext,
    context_items,
    find_known_context,
    instructions_for,
)
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC

PLACE = EnvironmentFacts(cwd="/w", date="2026-04-22")
MODEL = ModelInfo(slug="m", provider="p", wire="responses")
SMALL = ModelInfo(slug="s", provider="p", wire="local", short_prompt=True)
ENVIRONMENT = (
    "<environment_context>\n  <cwd>/w</cwd>\n  <shell>bash</shell>\n"
    "  <current_date>2026-04-22</current_date>\n  <timezone>Etc/UTC</timezone>\n"
    "</environment_context>"
)
SPEC = with_fields(
    FAKE_AGENT_SPEC, role=RoleBrief(developer_instructions="DEV"), user_instructions="Be kind."
)


def test_a_conversation_begins_with_rights_role_guidance_and_place():
    items, told = context_items(SPEC, place=PLACE, model=MODEL, known=KnownContext())
    permissions = permissions_text(SPEC.limits, cwd="/w")
    guidance = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>"
    assert items == (
        text_message("developer", permissions, "DEV"),
        text_message("user", guidance, ENVIRONMENT),
    )
    assert find_known_context(items, cwd="/w") == told
    assert context_items(SPEC, place=PLACE, model=MODEL, known=told)[0] == ()


def test_later_only_what_changed_is_told_and_the_role_never_again():
    items, told = context_items(SPEC, place=PLACE, model=MODEL, known=KnownContext())
    moved = msgspec.structs.replace(PLACE, date="2026-04-23")
    changed, told = context_items(
        SPEC, place=moved, model=MODEL, known=find_known_context(items, cwd="/w")
    )
    assert changed == (text_message("user", environment_text(moved)),)
    free = msgspec.structs.replace(SPEC, limits=Limits(sandbox=DangerFullAccess()))
    changed, _ = context_items(free, place=moved, model=MODEL, known=told)
    assert changed == (text_message("developer", permissions_text(free.limits, cwd="/w")),)


def test_a_changed_list_of_skills_is_told_again_whole_and_an_unchanged_one_is_not():
    one, two = "- a: x (file: /a/SKILL.md)", "- b: y (file: /b/SKILL.md)"
    spec = msgspec.structs.replace(SPEC, skills=(one,))
    items, _ = context_items(spec, place=PLACE, model=MODEL, known=KnownContext())
    known = find_known_context(items, cwd="/w")
    assert context_items(spec, place=PLACE, model=MODEL, known=known)[0] == ()
    spec = msgspec.structs.replace(spec, skills=(one, two))
    (message,), _ = context_items(spec, place=PLACE, model=MODEL, known=known)
    assert message == text_message("developer", skills_text((one, two), replaces=True))
    known = find_known_context((*items, message), cwd="/w")
    none = msgspec.structs.replace(spec, skills=())
    (last,), told = context_items(none, place=PLACE, model=MODEL, known=known)
    assert "(none)" in text_of(last.content)
    assert find_known_context((*items, message, last), cwd="/w") == told


def test_skills_that_do_not_fit_are_counted_in_the_list():
    lines = tuple(f"- a{number}: {'x' * 60} (file: /{number}/SKILL.md)" for number in range(9))
    spec = msgspec.structs.replace(SPEC, skills=(*lines, unlisted_line(3)))
    narrow = msgspec.structs.replace(MODEL, context_window=4_000)
    items, told = context_items(spec, place=PLACE, model=narrow, known=KnownContext())
    shown = text_of(items[0].content)
    assert lines[0] in shown
    assert lines[8] not in shown
    assert sum(line in shown for line in lines) + unlisted_count(told.skills[-1]) == 9 + 3
    assert find_known_context(items, cwd="/w") == told


def test_a_small_model_is_told_its_role_alone():
    items, told = context_items(SPEC, place=PLACE, model=SMALL, known=KnownContext())
    assert items == (text_message("developer", "DEV"),)
    assert context_items(SPEC, place=PLACE, model=SMALL, known=told)[0] == ()


def test_base_instructions_fit_their_models_and_a_role_may_bring_its_own():
    assert len(base_instructions(MODEL).encode()) <= 6 * 1024
    assert len(base_instructions(SMALL).encode()) <= 600
    own = msgspec.structs.replace(FAKE_AGENT_SPEC, role=RoleBrief(base_instructions="OWN"))
    assert instructions_for(own, MODEL) == "OWN"
    assert instructions_for(FAKE_AGENT_SPEC, SMALL) == base_instructions(SMALL)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(sandbox=ReadOnly()), ["`read-only`", "Network access is restricted"]),
        (Limits(sandbox=ReadOnly(network_access=True)), ["Network access is enabled"]),
        (
            Limits(sandbox=WorkspaceWrite(writable_roots=("/x",))),
            ["`workspace-write`", "The writable roots are `/w`, `/x`."],
        ),
        (Limits(sandbox=WorkspaceWrite()), ["The writable root is `/w`."]),
        (Limits(sandbox=DangerFullAccess()), ["`danger-full-access`"]),
        (Limits(approval="never"), ["`never`"]),
        (Limits(), ["nobody can be asked"]),
        (
            Limits(reviewer="person"),
            ["`on-request`", "you may ask a person for more", "`justification`"],
        ),
        (Limits(reviewer="guardian"), ["`on-request`", "you may ask a reviewer for more"]),
        (Limits(reviewer="guardian", approval="untrusted"), ["nobody can be asked"]),
        (Limits(reviewer="person", approval="untrusted"), ["`untrusted`", "put to a person"]),
        (Limits(reviewer="person", approval="on-failure"), ["`on-failure`", "a person is asked"]),
        (
            Limits(reviewer="person", granular=Granular(sandbox_approval=False)),
            ["no question about leaving the sandbox"],
        ),
        (
            Limits(reviewer="person", sandbox=DangerFullAccess()),
            ["there is no sandbox to leave", "put to a person"],
        ),
    ],
)
def test_permissions_name_the_sandbox_the_network_and_who_can_be_asked(limits, said):
    text = permissions_text(limits, cwd="/w")
    assert text.startswith("<permissions instructions>\n")
    assert text.endswith("\n</permissions instructions>")
    assert "{" not in text
    for words in said:
        assert words in text


def test_a_locked_role_is_told_that_nothing_opens_its_sandbox():
    text = permissions_text(Limits(reviewer="person"), cwd="/w", is_locked=True)
    assert "locked in its sandbox for good" in text


def test_a_mail_says_what_it_is_and_from_whom():
    mail = Mail(mail_id="m", author="/root", recipient="/root/a", content="x\ny", kind="followup")
    text = "Message Type: NEW_TASK\nTask name: /root/a\nSender: /root\nPayload:\nx\ny"
    assert mail_message(mail) == Message(
        role="assistant", content=(OutputText(text=text),), author="/root"
    )


def test_an_image_stands_between_tags_that_its_name_cannot_leave():
    url = "blob:00;image/png"
    parts = (ImageInput(image_url=url, name='a">\nb'), TextInput(text="see"))
    assert user_message(parts).content == (
        InputText(text='<image name="a\'  b">'),
        InputImage(image_url=url),
        InputText(text="</image>"),
        InputText(text="see"),
    )


def test_the_mark_of_an_interrupted_turn_stands_on_its_own_lines():
    text = turn_aborted_message().content[0].text
    assert text.startswith("<turn_aborted>\n")
    assert text.endswith("\n</turn_aborted>")


def test_what_is_switched_off_is_not_told():
    rules = ContextRules(permissions=False, environment=False)
    spec = with_fields(SPEC, context=rules)
    items, told = context_items(spec, place=PLACE, model=MODEL, known=KnownContext())
    block = guidance_text("Be kind.", cwd="/w")
    assert items == (text_message("developer", "DEV"), text_message("user", block))
    moved = msgspec.structs.replace(PLACE, date="2026-04-23")
    assert context_items(spec, place=moved, model=MODEL, known=told)[0] == ()


def test_guidance_that_changed_is_told_again_and_says_so():
    items, told = context_items(SPEC, place=PLACE, model=MODEL, known=KnownContext())
    other = with_fields(SPEC, user_instructions="Be quick.")
    more, told = context_items(other, place=PLACE, model=MODEL, known=told)
    assert more == (text_message("user", guidance_text("Be quick.", cwd="/w", replaces=True)),)
    below = text_message("user", guidance_text("deep", cwd="/w/deep"))
    assert find_known_context((*items, *more, below), cwd="/w") == told


def test_guidance_of_a_folder_below_is_not_taken_for_that_of_the_working_directory():
    bare = with_fields(SPEC, user_instructions="")
    items, _ = context_items(bare, place=PLACE, model=MODEL, known=KnownContext())
    below = text_message("user", guidance_text("deep", cwd="/w/deep"))
    told = find_known_context((*items, below), cwd="/w")
    assert context_items(bare, place=PLACE, model=MODEL, known=told)[0] == ()
