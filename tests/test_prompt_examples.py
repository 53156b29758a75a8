"""No example in any prompt is harmful when a model copies it: small models do.

Every text that the product sends to a model is looked at: the `.md` files, the tools' descriptions
and schemas in each form, and the texts in code.
"""

import ast
import json
import re
from pathlib import Path

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.parts.goals.goal_messages import GoalAccess
from swarm.mailbox.parts.memories.memory_messages import MemoryAccess
from swarm.mailbox.parts.notices.notice_messages import NoticeAccess
from swarm.mailbox.parts.part_messages import PartRules, PartText
from swarm.mailbox.parts.tool_names import TOOL_NAMES
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.inbox import Inbox
from swarm.worker.gateway.constrained_calls import describe_calls
from swarm.worker.parts.patch.patch_grammar import FUNCTION_DESCRIPTION
from swarm.worker.policy.safe_commands import is_safe_command
from swarm.worker.policy.shell_parser import plain_commands
from swarm.worker.probe.probe_tasks import probe_tasks
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.interface.function_tool import is_placeholder
from swarm.worker.tools.interface.team_client import TeamClient
from swarm.worker.tools.toolset import Toolset

ROOT = Path(__file__).resolve().parents[1]
PROMPT_FOLDERS = ("worker", "roles", "supervisor")
# Modules whose texts go to models.
SPEAKING = (
    "worker/agent", "worker/tools", "worker/gateway/constrained_calls.py", "worker/probe",
    "worker/gateway/text_tool_calls.py", "worker/parts/patch", "worker/policy/command_decision.py",
    "supervisor/parts/guardian", "supervisor/parts/memories", "supervisor/parts/review",
    "supervisor/team",
    "supervisor/parts/budget",
)  # fmt: skip
HARMFUL = re.compile(
    r"\bsed\s+-\w*i|\bperl\s+-\w*i|\brm\s+-|\brm\s+\w|\bxargs\b|\bshred\b|\bdd\s+if|\btruncate\s+-"
    r"|\bchmod\s|\bchown\s|\bmkfs|\btee\s+\w|\bmv\s+\w|\bkill\s+-|\bpkill\b|-delete\b|-exec\b"
    r"|\bgit\s+(?:reset|checkout|clean|push|rebase|rm|stash|restore|commit|branch\s+-D)\b"
    r"|\b(?:npm|pip|pip3|cargo|apt|apt-get|yarn)\W{1,6}(?:install|add|remove|uninstall)\b"
    r"|\b(?:curl|wget)\s+\S*:|\|\s*(?:ba|z)?sh\b"
)
SPEC = with_fields(
    FAKE_AGENT_SPEC,
    can_spawn=True,
    job="j",
    parts=PartRules(
        memories=MemoryAccess(is_reader=True),
        goals=GoalAccess(has_goal=True),
        notices=NoticeAccess(can_tell=True),
        texts=(PartText(text="- a", brief="a"),),
    ),
    offers_copies=True,
    limits=Limits(sandbox=WorkspaceWrite(), reviewer="person"),
)
LARGE = ModelInfo(slug="m", provider="p", wire="chat")
SMALL = msgspec.structs.replace(LARGE, small=True)
CONSTRAINED = msgspec.structs.replace(LARGE, constrained_calls=True)


class Commands:
    """Runs nothing."""


def specs(model):
    current = CurrentSpec(SPEC)
    registry = Toolset(current, Commands()).make_registry(None, TeamClient(current, None, Inbox()))
    return registry.specs(model)


def texts_of_files():
    for folder in PROMPT_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.md")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def texts_of_tools():
    for model in (LARGE, SMALL, CONSTRAINED):
        for spec in specs(model):
            yield f"{spec.name} for {model}", f"{spec.description}\n{spec.parameters.decode()}"
    yield "the listing of constrained calls", describe_calls(specs(CONSTRAINED), None)
    for task in probe_tasks():
        yield f"probe {task.test}", task.prompt


def texts_of_code():
    for name in SPEAKING:
        path = ROOT / name
        assert path.exists(), name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            docs = {
                id(node.body[0].value)
                for node in ast.walk(tree)
                if isinstance(node, documented) and node.body
                and isinstance(node.body[0], ast.Expr)
            }  # fmt: skip
            for node in ast.walk(tree):
                if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                    continue
                if id(node) not in docs and " " in node.value:
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value


def test_every_prompt_is_looked_at():
    assert len(list(texts_of_files())) > 75
    assert {"exec_command", "edit_file", "begin_task"} <= {spec.name for spec in specs(SMALL)}
    offered = {spec.name for model in (LARGE, SMALL) for spec in specs(model)}
    of_others = {"publish_finding", "recall_findings", "merge_changes", "discard_changes"}
    assert set(TOOL_NAMES) - offered <= of_others | {"list_changes", "wake_me"}  # of a root


@pytest.mark.parametrize("texts", [texts_of_files, texts_of_tools, texts_of_code])
def test_no_prompt_holds_an_example_that_is_harmful_when_copied(texts):
    found = {place: match[0] for place, text in texts() if (match := HARMFUL.search(text))}
    assert found == {}


def test_what_stands_in_backticks_and_is_a_command_only_reads():
    for place, text in (*texts_of_files(), *texts_of_tools()):
        for quoted in re.findall(r"`([^`\n]+)`", text):
            commands = plain_commands(quoted) or ()
            programs = [one for one in commands if one[0] in ("sed", "rg", "grep", "cat", "find")]
            assert all(map(is_safe_command, programs)), (place, quoted)


@pytest.mark.parametrize("model", [SMALL, CONSTRAINED])
def test_examples_for_small_models_hold_nothing_but_placeholders(model):
    text = describe_calls(specs(model), None)
    for line in text.splitlines():
        if line.strip().startswith("{"):
            for name, value in json.loads(line)["arguments"].items():
                assert is_placeholder(value), (name, value)


def test_the_example_of_a_patch_names_no_file():
    named = re.findall(r"\*\*\* \w+ File: (.*)", FUNCTION_DESCRIPTION)
    assert named and all(map(is_placeholder, named))
