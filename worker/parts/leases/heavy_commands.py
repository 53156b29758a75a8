"""Finds commands that builds, tests and installs are known by. Pure.

Only for taking turns: nothing is allowed or refused because of it. A command that changes its
words to hide what it does only runs beside others.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

from swarm.mailbox.parts.leases.lease_messages import (
    MAX_LEASE_TEXT,
    CommandKind,
    HeavyKind,
    LeaseRules,
)
from swarm.mailbox.protocol.values.base import Value

from ...policy.script_commands import find_commands
from ...policy.shell_parser import Words, program_name
from ...policy.shell_words import ShellWords

_BUILT_IN: dict[CommandKind, str] = {
    "build": """
        make | gmake | ninja | samu | cmake --build | meson compile | scons | waf build | ant
        bazel build | bazelisk build | buck2 build | pants package | gradle | gradlew | mvn | mvnw
        sbt | lein uberjar | cargo build | cargo check | cargo clippy | cargo doc | cargo rustc
        go build | go vet | go generate | swift build | xcodebuild | zig build | stack build
        cabal build | dune build | mix compile | rebar3 compile | nix build | nix-build
        dotnet build | dotnet publish | msbuild | docker build | docker buildx | podman build
        docker compose build | buildah build | npm run build | yarn build | yarn run build
        pnpm build | pnpm run build | bun run build | bun build | tsc | webpack | rollup -c
        vite build | next build | nuxt build | ng build | turbo run | nx run-many
        python -m build | poetry build | uv build | hatch build | flutter build | rake
        bundle exec rake | dpkg-buildpackage | debuild | rpmbuild | pyinstaller | sphinx-build
    """,
    "test": """
        pytest | py.test | tox | nox | python -m pytest | python -m unittest | mypy | pyright
        pre-commit run | cargo test | cargo nextest | cargo bench | cargo miri | cargo llvm-cov
        go test | gotestsum | ctest | meson test | bazel test | bazelisk test | buck2 test
        npm test | npm t | npm run test | npm run check | npm run lint | yarn test | yarn run test
        pnpm test | pnpm run test | bun test | jest | vitest | mocha | ava | karma start
        playwright test | cypress run | rspec | phpunit | pest | mix test | swift test | stack test
        cabal test | dune test | zig test | dotnet test | flutter test | dart test | lein test
        hatch test | hatch run test | rails test | bats | prove | hypothesis fuzz | eslint
    """,
    "install": """
        npm ci | npm install | npm i | yarn install | yarn add | pnpm install | pnpm i | pnpm add
        bun install | bun add | pip install | pip3 install | python -m pip install | pip wheel
        uv sync | uv pip install | uv lock | uv add | poetry install | poetry add | poetry update
        pipenv install | pdm install | conda install | conda create | conda env | mamba install
        mamba create | apt install | apt-get install | apt-get build-dep | dnf install | yum install
        apk add | brew install | cargo install | cargo fetch | go install | go mod download
        bundle install | gem install | composer install | composer update | mix deps.get
        dotnet restore | cpan | cpanm | opam install
    """,
}
# Programs that run the command behind them, beside the policy's own wrappers.
_RUNNERS = (
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"),
    ("bundle", "exec"), ("pnpm", "exec"), ("npm", "exec"), ("yarn", "exec"), ("rye", "run"),
    ("coverage", "run"), ("npx",), ("bunx",), ("uvx",), ("pipx", "run"), ("xvfb-run",),
)  # fmt: skip
# A command with one of these only tells something, or never ends by itself.
_LIGHT_OPTIONS = frozenset({
    "--help", "-h", "--version", "-V", "--dry-run", "--collect-only", "--co", "--list",
    "--list-tests", "--watch", "--watchAll", "--watch-all", "--print-data-base",
})  # fmt: skip
_LIGHT_TARGETS = frozenset("help clean distclean mostlyclean format fmt".split())  # noqa: SIM905
_MAKERS = frozenset({"make", "gmake", "ninja", "rake"})
# Targets, subcommands and options with which a program goes on until somebody ends it.
_ENDLESS_TARGETS = frozenset("serve dev run up watch start".split())  # noqa: SIM905
_ENDLESS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_MAKERS, _ENDLESS_TARGETS),
    "turbo": frozenset({"dev", "serve", "start", "watch"}),
    "tsc": frozenset({"-w"}),
    "rollup": frozenset({"-w"}),
    "webpack": frozenset({"serve", "watch", "-w"}),
    **dict.fromkeys(("gradle", "gradlew"), frozenset({"bootRun", "-t", "--continuous"})),
    **dict.fromkeys(("mvn", "mvnw"), frozenset({"spring-boot:run", "jetty:run", "quarkus:dev"})),
}
_OPTIONS_WITH_NAMES = frozenset({"-C", "-f", "-p", "--directory", "--file", "--filter"})
# They prove heavy where much is there to be looked at; the next time it is something else.
_COMMON_TOOLS = frozenset(
    "git ls find grep rg cat sed awk tar du rm cp mv head tail wc sort".split()  # noqa: SIM905
)
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?\Z|pypy3?\Z")
# Alone, their name says nothing of what they run.
_INTERPRETERS = frozenset(
    "python node deno bun ruby perl php java bash sh zsh dash lua Rscript julia".split()  # noqa: SIM905
)
_MAX_OPERANDS, _MOST_AHEAD = 8, 2  # operands that are looked at; of options' values, before a match


class HeavyCommand(Value):
    """A command that takes turns: its words, and those that it is known by."""

    kind: HeavyKind
    command: str
    head: str


class HeavyCommands:
    """The table of one agent: the built-in one, the configuration's, and what was learned."""

    def __init__(self, rules: LeaseRules) -> None:
        self._by_program = _BUILT_IN_TABLE
        self._also_named: re.Pattern[str] | None = None  # programs that the built-in one lacks
        added: dict[Words, HeavyKind | CommandKind] = {
            **{_entry(words): "learned" for words in rules.learned if words.strip()},
            **{_entry(words): kind for words, kind in rules.commands.items() if words.strip()},
        }
        if added:
            self._add(added)

    def find(self, argv: Sequence[str]) -> HeavyCommand | None:
        """The heaviest part of an argv or of its script; None for a light one. Never raises."""
        if not any(map(self._may_name, argv)):
            return None  # the usual case: no parsing
        found = [heavy for words in find_commands(argv) if (heavy := self._judge(words))]
        return min(found, key=lambda one: _ORDER.index(one.kind), default=None)

    def learn(self, head: str) -> None:
        """Commands that begin with these words were heavy."""
        if head.strip():
            self._add({_entry(head): "learned"})

    def _add(self, added: Mapping[Words, HeavyKind | CommandKind]) -> None:
        """Add entries; those that are there are replaced, but not by what was learned."""
        entries: dict[Words, HeavyKind | CommandKind] = {
            words: kind for known in self._by_program.values() for words, kind in known
        }
        for words, kind in added.items():
            if kind != "learned" or words not in entries:
                entries[words] = kind
        self._by_program = _by_program(entries)
        self._also_named = _naming(self._by_program.keys() - _BUILT_IN_TABLE.keys())

    def _may_name(self, text: str) -> bool:
        if _BUILT_IN_NAMES.search(text):
            return True
        return self._also_named is not None and self._also_named.search(text) is not None

    def _judge(self, command: ShellWords) -> HeavyCommand | None:
        words = _without_runners(_named(_literal(command)))
        if not words or not _LIGHT_OPTIONS.isdisjoint(words) or _is_light_target(words):
            return None
        operands = _operands(words)
        for entry, kind in self._by_program.get(words[0], ()):
            if _begins(operands, entry[1:]):
                if kind == "light" or _never_ends(words, entry):
                    return None
                return HeavyCommand(kind=kind, command=_cut(words), head=" ".join(entry))
        return None


_EntryTable = dict[str, list[tuple[Words, HeavyKind | CommandKind]]]
_ORDER: tuple[HeavyKind, ...] = ("build", "test", "learned", "install")


def describe_unknown(argv: Sequence[str]) -> HeavyCommand | None:
    """What a command that proved heavy is known by from now on; None if that is not clear.

    Only a script with one command beside `cd` and the like is clear. A program that was written
    as a path is not: elsewhere another one has the same name.
    """
    literal = [_literal(words) for words in find_commands(argv)]
    found = [(_without_runners(_named(words)), words) for words in literal if words]
    found = [(words, written) for words, written in found if words[0] not in _BESIDE]
    if len(found) != 1:
        return None
    words, written = found[0]
    if words[0].split() != [words[0]] or "/" in written[-len(words)]:
        return None
    if words[0] in _COMMON_TOOLS or _never_ends(words):
        return None
    operands = _operands(words)[:1]
    if operands == ("-m",):
        operands = _operands(words)[:2]
    elif words[0] in _INTERPRETERS and (not operands or words[1].startswith("-")):
        return None
    head = " ".join((words[0], *operands))
    if len(head) > MAX_LEASE_TEXT:
        return None
    return HeavyCommand(kind="learned", command=_cut(words), head=head)


def _cut(words: Words) -> str:
    """The words, cut between two of them: half a secret would not be known as one."""
    text = " ".join(words)
    if len(text) <= MAX_LEASE_TEXT:
        return text
    return text[: MAX_LEASE_TEXT + 1].rpartition(" ")[0]


_BESIDE = frozenset("cd echo export set true printf source . pushd popd test [".split())  # noqa: SIM905


def _built_in_entries() -> Iterator[tuple[Words, CommandKind]]:
    for kind, text in _BUILT_IN.items():
        for entry in re.split(r"\||\n", text):
            if words := tuple(entry.split()):
                yield words, kind


def _entry(text: str) -> Words:
    words = text.split()
    return (_program(words[0]), *words[1:])


def _program(word: str) -> str:
    name = program_name(word)
    return "python" if _PYTHON.match(name) else name


def _by_program(entries: Mapping[Words, HeavyKind | CommandKind]) -> _EntryTable:
    """The entries by their program; the longest, which counts, first."""
    found: _EntryTable = {}
    for words, kind in sorted(entries.items(), key=lambda entry: -len(entry[0])):
        found.setdefault(words[0], []).append((words, kind))
    return found


def _naming(programs: Collection[str]) -> re.Pattern[str] | None:
    """Finds texts that may name one of these programs."""
    if not programs:
        return None
    names = "|".join(sorted(map(re.escape, programs), key=len, reverse=True))
    return re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])")


def _literal(words: ShellWords) -> Words:
    """The words at its start that are known, without assignments before the program."""
    known = [word.text for word in takewhile(lambda word: word.kind != "unknown", words)]
    while known and re.match(r"[A-Za-z_]\w*=", known[0]):
        del known[0]
    return tuple(known)


def _named(words: Words) -> Words:
    """The words with the name of the program instead of its path."""
    return (_program(words[0]), *words[1:]) if words else ()


def _without_runners(words: Words) -> Words:
    """Without `uv run`, `npx`, `python -m` before a program that is known by itself."""
    for _ in range(_MAX_OPERANDS):
        runner = next((one for one in _RUNNERS if words[: len(one)] == one), None)
        if runner is None:
            break
        rest = words[len(runner) :]
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest = rest[1:]
        if rest[:1] == ("-m",):
            rest = ("python", *rest)
        if not rest:
            break
        words = (_program(rest[0]), *rest[1:])
    return words


def _operands(words: Words) -> Words:
    """What may name a subcommand. `-m` of Python and the like stay: they choose what is run."""
    kept = [word for word in words[1:] if not word.startswith(("-", "+")) or word in _CHOOSING]
    return tuple(kept[:_MAX_OPERANDS])


_CHOOSING = frozenset({"-m", "--build", "-c"})


def _begins(operands: Words, wanted: Words) -> bool:
    """Whether the operands begin with these words, behind at most two values of options."""
    if not wanted:
        return True
    ends = range(min(_MOST_AHEAD, len(operands) - len(wanted)) + 1)
    return any(operands[at : at + len(wanted)] == wanted for at in ends)


def _is_light_target(words: Words) -> bool:
    targets = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] in _MAKERS and bool(targets) and _LIGHT_TARGETS.issuperset(targets)


def _never_ends(words: Words, entry: Words = ()) -> bool:
    """Whether these words say so, beside those of the entry that names the command."""
    if words[0] == "karma":
        return "--single-run" not in words
    endless = _ENDLESS.get(words[0], frozenset[str]()).difference(entry)
    return any(
        word in endless and before not in _OPTIONS_WITH_NAMES for before, word in pairwise(words)
    )


# Made when the fork-server imports this, so that no agent makes them again.
_BUILT_IN_TABLE = _by_program(dict(_built_in_entries()))
_BUILT_IN_NAMES = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(sorted(map(re.escape, _BUILT_IN_TABLE), key=len, reverse=True))}"
    r"|python[\d.]*|pypy3?)(?![\w-])"
)
