"""null for an optional argument is the argument left out, in every tool and by every name."""

import importlib
import json
import pkgutil

import msgspec
import pytest

from swarm.mailbox.protocol.events import McpCall, OtherCall, PlanStep
from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.mcp import McpTool
from swarm.supervisor.clients.mcp_server.tool_arguments import RunToolArguments, read_arguments
from swarm.worker import tools
from swarm.worker.agent.context.pinned_state import collect_state
from swarm.worker.parts.hooks.tool_hooks import HookedCall, rewritten_call
from swarm.worker.tools.interface.function_tool import FunctionTool, decode_arguments
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.mcp_tool import McpServerTool
from swarm.worker.tools.trained_calls import meant_call


def call(name: str, arguments: object) -> FunctionCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return FunctionCall(call_id="c", name=name, arguments=text)


def structs_of_all_tools():
    for module in pkgutil.walk_packages(tools.__path__, f"{tools.__name__}."):
        importlib.import_module(module.name)
    waiting, found = [FunctionTool], set()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if "arguments" in vars(kind):
            found.add(kind.arguments)
    return sorted(found, key=lambda struct: struct.__name__)


def required_of(struct):
    """A right value for each required field, as msgspec's own reading of the struct wants it."""
    values = {}
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        kind = field.type.type if isinstance(field.type, msgspec.inspect.Metadata) else field.type
        if field.required:
            match kind:
                case msgspec.inspect.IntType():
                    values[field.encode_name] = 1
                case msgspec.inspect.LiteralType(values=choices):
                    values[field.encode_name] = choices[0]
                case msgspec.inspect.VarTupleType():
                    values[field.encode_name] = []
                case msgspec.inspect.StructType() | msgspec.inspect.RawType():
                    values[field.encode_name] = {}
                case _:
                    values[field.encode_name] = "x"
    return values


@pytest.mark.parametrize("struct", structs_of_all_tools(), ids=lambda struct: struct.__name__)
def test_in_every_tool_null_is_left_out_where_there_is_a_default_and_refused_elsewhere(struct):
    right = required_of(struct)
    plain = decode_arguments(call("t", right), struct)
    fields = msgspec.structs.fields(struct)
    optional = {field.encode_name: None for field in fields if not field.required}
    assert decode_arguments(call("t", {**right, **optional}), struct) == plain
    for name, value in right.items():
        if value != {}:
            with pytest.raises(ToolFailed, match=rf"got `null` - at `\$\.{name}`"):
                decode_arguments(call("t", {**right, name: None}), struct)


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("shell", {"cmd": None, "command": ["ls"], "workdir": None}, "ls"),
        ("shell", {"command": '["bash", "-lc", "ls | wc"]'}, "ls | wc"),
        ("bash", {"command": "[ -f x ] && ls"}, "[ -f x ] && ls"),
        ("read_file", {"path": None, "file_path": "a"}, "cat -- a"),
        (
            "read_file",
            {"path": "a", "start_line": None, "offset": 3, "end_line": None, "limit": 2},
            "sed -n '3,4p' -- a",
        ),
        (
            "str_replace_editor",
            {"command": "view", "path": "a", "view_range": "[2, 5]"},
            "sed -n '2,5p' -- a",
        ),
        ("list_files", "null", "ls -la -- ."),
        ("list_files", {"path": None}, "ls -la -- ."),
    ],
)
def test_a_trained_call_means_the_same_with_null_and_with_lists_as_text(name, arguments, command):
    meant = meant_call(call(name, arguments))
    assert json.loads(meant.arguments) == {"cmd": command}


def test_a_plan_that_was_written_as_text_is_kept_like_any_other():
    plan = json.dumps([{"step": "look", "status": "completed"}])
    item = call("update_plan", {"plan": plan, "explanation": None})
    assert collect_state([item]).plan == (PlanStep(step="look", status="completed"),)


@pytest.mark.parametrize("written", ["", " ", "null", "{}"])
async def test_no_arguments_of_an_mcp_tool_are_an_empty_object(written):
    assert (await mcp_detail(written)).arguments == "{}"


async def test_the_arguments_of_an_mcp_tool_stay_as_they_are():
    written = '{"a":null,"b":"[1]","c":{"d":null}}'
    assert (await mcp_detail(written)).arguments == written


async def mcp_detail(written):
    tool = McpTool(server="s", tool="t", name="t", parameters=b'{"type":"object"}')
    prepared = await McpServerTool(None, tool, is_described=True).prepare(call("t", written))
    assert isinstance(prepared.detail, McpCall)
    return prepared.detail


def test_a_hook_changes_a_call_without_arguments_like_one_with_none():
    hooked = HookedCall(turn_id="t", item=call("exec_command", "null"), detail=OtherCall())
    changed = rewritten_call(hooked, {"cmd": "ls"})
    assert json.loads(changed.arguments) == {"cmd": "ls"}


def test_a_client_of_the_mcp_server_may_write_null_too():
    given = {"task": "x", "sandbox": None, "cwd": None, "budget": {"tokens": None, "usd": 1}}
    left_out = {"task": "x", "budget": {"usd": 1}}
    assert read_arguments(given, RunToolArguments) == read_arguments(left_out, RunToolArguments)
