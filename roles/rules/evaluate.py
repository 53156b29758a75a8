"""Evaluates rule files with Starlark, in a process of its own with limited CPU time and memory.

A file can nest brackets until the parser's stack overflows, exhaust the memory, or multiply numbers
for hours. None of these can be caught in the same process. The only module that imports `starlark`.

Usage: python -P -m swarm.roles.rules.evaluate; stdin and stdout are msgpack (`EvaluationRequest`,
`EvaluationReply`). Started only by `evaluator_client`.
"""

import re
import resource
import sys

import msgspec
import starlark

from swarm.mailbox.protocol.rules import NetworkRule

from .evaluator_client import CollectedRules, EvaluationReply, EvaluationRequest
from .rule_parsing import (
    RuleExamples,
    RuleRefused,
    check_examples,
    read_examples,
    read_host_executable,
    read_network_rule,
    read_prefix_rule,
)

CPU_S = 2
MEMORY_BYTES = 512 << 20
MAX_ANSWER_BYTES = 4 << 20  # a loop can write more than a run should carry
MAX_RULES = 20_000  # of all files together; only a loop makes more
_NAME = "rules"  # the file's name for Starlark; the caller adds the real one
_MAX_CALLS = 200
_LINE = re.compile(rf"^ *(?:\*|-->) {_NAME}:(\d+)", re.MULTILINE)
_MARGIN = re.compile(r"^(?: *(?:\d+ *)?[|>]| *-->|Traceback| {2,}).*$\n?", re.MULTILINE)
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


class _Builtins:
    """The three built-in functions of the rule language, with its parameters."""

    def __init__(self, before: CollectedRules) -> None:
        self._before = before
        self.examples: list[RuleExamples] = []
        self.network: list[NetworkRule] = []
        self.executables = {one.name: one for one in before.executables}

    def prefix_rule(  # noqa: PLR0913, PLR0917 - the language's own parameters, in its order
        self,
        stack: str,
        pattern: object,
        decision: object = None,
        match: object = None,
        not_match: object = None,
        justification: object = None,
        exact: object = None,
        unconfined: object = None,
    ) -> None:
        reach = (exact, unconfined)
        rule = read_prefix_rule(pattern, decision, justification, reach=reach)
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
    builtins = _Builtins(before)
    module = starlark.Module()
    names = starlark.Globals.extended_by([starlark.LibraryExtension.CallStack])
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


def _dialect() -> starlark.Dialect:
    dialect = starlark.Dialect.extended()
    dialect.enable_f_strings = True
    dialect.enable_load = False  # a rule file loads no other file
    return dialect


def _explained(text: str) -> RuleFileBroken:
    """Starlark's message without its source excerpt, and the innermost line of the rule file."""
    sentence = _MARGIN.sub("", text).strip() or text.strip()
    for noise in ("error: ", "RuleRefused: ", "StarlarkError: ", "TypeError: _Builtins."):
        sentence = sentence.removeprefix(noise)
    return RuleFileBroken(" ".join(sentence.split()), _last_line(text))


def _last_line(text: str) -> int | None:
    lines = _LINE.findall(text)
    return int(lines[-1][:9]) if lines else None


def evaluate_files(request: EvaluationRequest) -> EvaluationReply:
    """Evaluate the files in order; stop at the first broken one."""
    collected = CollectedRules()
    for at, text in enumerate(request.texts):
        # Written at once, so that the parent knows the faulty file if this process dies.
        sys.stderr.write(f"{at}\n")
        sys.stderr.flush()
        try:
            collected = evaluate(text, at, collected)
        except RuleFileBroken as error:
            return EvaluationReply(broken_at=at, what=error.what[:2000], line=error.line)
    return EvaluationReply(collected=collected)


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=EvaluationRequest)
    answer = msgspec.msgpack.encode(evaluate_files(request))
    if len(answer) > MAX_ANSWER_BYTES:
        last = len(request.texts) - 1
        reply = EvaluationReply(broken_at=last, what="the rules are too long, all together")
        answer = msgspec.msgpack.encode(reply)
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
