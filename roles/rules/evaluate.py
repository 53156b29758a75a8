"""Evaluates the text of one rule file with Starlark. The only module that imports `starlark`.

Run it in a separate process (`evaluator_process`). A file can nest brackets until the parser's
stack overflows, exhaust the memory, or multiply numbers for hours. None of these can be caught in
the same process.
"""

import re
from typing import TYPE_CHECKING

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.rules import HostExecutable, NetworkRule, PrefixRule, RuleSet

from .rule_hosts import RuleRefused
from .rule_parsing import (
    RuleExamples,
    check_examples,
    read_examples,
    read_host_executable,
    read_network_rule,
    read_prefix_rule,
)

if TYPE_CHECKING:
    from starlark import Dialect, Globals

MAX_RULES = 20_000  # of all files together; only a loop makes more
_NAME = "rules"  # the file's name for Starlark; the caller adds the real one
_MAX_CALLS = 200
_LINE = re.compile(rf"^ *(?:\*|-->) {_NAME}:(\d+)", re.MULTILINE)
_MARGIN = re.compile(r"^(?: *\d* *[|>]| *-->|Traceback| {2,}).*$\n?", re.MULTILINE)
# Starlark does not pass a call's position, so these wrappers add it.
_PRELUDE = """
def prefix_rule(*args, **kwargs):
    _prefix_rule(call_stack(strip_frames = 1), *args, **kwargs)

def network_rule(*args, **kwargs):
    _network_rule(*args, **kwargs)

def host_executable(*args, **kwargs):
    _host_executable(*args, **kwargs)
"""


class RuleFileBroken(Exception):
    """A rule file is invalid. `line` is 1-based, or None if the error has no line."""

    def __init__(self, what: str, line: int | None) -> None:
        super().__init__(what)
        self.what, self.line = what, line


class CollectedRules(Value):
    """The rules of the files so far; `files[at]` is the index of the file of `prefixes[at]`."""

    prefixes: tuple[PrefixRule, ...] = ()
    files: tuple[int, ...] = ()
    executables: tuple[HostExecutable, ...] = ()
    network: tuple[NetworkRule, ...] = ()

    def rules(self) -> RuleSet:
        return RuleSet(prefixes=self.prefixes, executables=self.executables, network=self.network)


class _Builtins:
    """The three built-in functions of the rule language, with its parameters."""

    def __init__(self, before: CollectedRules) -> None:
        self._before = before
        self.examples: list[RuleExamples] = []
        self.network: list[NetworkRule] = []
        self.executables = {one.name: one for one in before.executables}

    def prefix_rule(  # the language's own parameters, in its order
        self,
        stack: str,
        pattern: object,
        decision: object = None,
        match: object = None,
        not_match: object = None,
        justification: object = None,
    ) -> None:
        rule = read_prefix_rule(pattern, decision, justification)
        self._check_count()
        self.examples.append(
            RuleExamples(
                rule=rule,
                matching=read_examples(match, "match"),
                not_matching=read_examples(not_match, "not_match"),
                line=_last_line(stack),
            )
        )

    def network_rule(
        self, host: object, protocol: object, decision: object, justification: object = None
    ) -> None:
        self._check_count()
        self.network.append(read_network_rule(host, protocol, decision, justification))

    def host_executable(self, name: object, paths: object) -> None:
        self._check_count()
        one = read_host_executable(name, paths)
        self.executables[one.name] = one

    def _check_count(self) -> None:
        before = len(self._before.prefixes) + len(self._before.network)
        made = len(self.examples) + len(self.network) + len(self.executables)
        if before + made >= MAX_RULES:
            raise RuleRefused(f"invalid rule: more than {MAX_RULES} rules")


def evaluate(text: str, at: int, before: CollectedRules) -> CollectedRules:
    """The rules of all files so far: those of `before`, then this file's.

    Raises RuleFileBroken, or the process dies; see the module docstring.
    """
    import starlark  # 4 MB, rarely needed

    builtins = _Builtins(before)
    module, names = starlark.Module(), _globals()
    module.add_callable("_prefix_rule", builtins.prefix_rule)
    module.add_callable("_network_rule", builtins.network_rule)
    module.add_callable("_host_executable", builtins.host_executable)
    try:
        starlark.eval(module, starlark.parse("prelude", _PRELUDE, _dialect()), names)
        tree = starlark.parse(_NAME, text, _dialect())
        options = starlark.EvalOptions(max_callstack_size=_MAX_CALLS)
        starlark.eval_with(options, module, tree, names)
    except starlark.StarlarkError as error:
        raise _explained(str(error)) from error
    executables = tuple(builtins.executables.values())
    for examples in builtins.examples:
        try:
            check_examples(examples, executables)
        except RuleRefused as error:
            raise RuleFileBroken(str(error), examples.line) from error
    made = tuple(examples.rule for examples in builtins.examples)
    return CollectedRules(
        prefixes=(*before.prefixes, *made),
        files=(*before.files, *(at for _ in made)),
        executables=executables,
        network=(*before.network, *builtins.network),
    )


def _dialect() -> "Dialect":
    import starlark

    dialect = starlark.Dialect.extended()
    dialect.enable_f_strings = True
    dialect.enable_load = False  # a rule file loads no other file
    return dialect


def _globals() -> "Globals":
    import starlark

    return starlark.Globals.extended_by([starlark.LibraryExtension.CallStack])


def _explained(text: str) -> RuleFileBroken:
    """Starlark's message without its source excerpt, and the innermost line of the rule file."""
    sentence = _MARGIN.sub("", text).strip() or text.strip()
    for noise in ("error: ", "RuleRefused: ", "StarlarkError: ", "TypeError: _Builtins."):
        sentence = sentence.removeprefix(noise)
    return RuleFileBroken(" ".join(sentence.split()), _last_line(text))


def _last_line(text: str) -> int | None:
    lines = _LINE.findall(text)
    return int(lines[-1][:9]) if lines else None
