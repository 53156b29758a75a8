"""Command files in the conversation and in an editor: offered, called, shown as they were typed."""

import shutil

import acp
import pytest
import trio

from support.acp_editor import LIMIT_S, Editor, connected, said, use
from support.acp_editor import play as play_editor
from support.chat_play import play, say
from support.scripted_team_run import says

__all__ = ["play"]

pytestmark = pytest.mark.live
COMMAND = "---\ndescription: Look around\nargument-hint: PATH\n---\nLook well at $1.\n"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_conversation_offers_and_calls_command_files(play):
    stage = play(says("/root", "I looked."))
    own = stage.home / "s" / "commands"
    own.mkdir(parents=True)
    (own / "look.md").write_text(COMMAND)
    (own / "diff.md").write_text("Never.")
    with stage.terminal() as terminal:
        say(terminal, "/look here")
        terminal.wait("› /look here")
        terminal.wait("I looked.")
        say(terminal, "/help")
        terminal.wait("Look around")
        say(terminal, "/lok here")
        terminal.wait("did you mean /look?")


async def test_an_editor_is_told_of_command_files_and_skills_and_calls_them(rig):
    notes = rig.home / "skills" / "notes" / "SKILL.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("---\nname: notes\ndescription: Write notes.\n---\nDo it.\n")
    (rig.home / "commands").mkdir()
    (rig.home / "commands" / "look.md").write_text(COMMAND)
    use(rig, said("{last_user}"))
    editor = Editor()

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            prompt = [acp.text_block("/look here")]
            await connection.prompt(session_id=session.session_id, prompt=prompt)
            await connection.close_session(session_id=session.session_id)

    with trio.fail_after(LIMIT_S):
        await play_editor(client)
    assert editor.text == "Look well at here."
    told = editor.of("available_commands_update")[-1]["availableCommands"]
    (look,) = [one for one in told if one["name"] == "look"]
    assert (look["description"], look["input"]["hint"]) == ("Look around", "PATH")
    assert {"name": "notes", "description": "skill: Write notes."} in told
