"""Which commands take turns: builds, tests and installs, whatever stands before their names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.parts.leases.lease_messages import LeaseRules
from swarm.worker.parts.leases.heavy_commands import HeavyCommand, HeavyCommands, describe_unknown

TABLE = HeavyCommands(LeaseRules(enabled=True))


def kind_of(script, table=TABLE):
    found = table.find(("/bin/bash", "-c", script))
    return None if found is None else found.kind


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("make -j8 all", "build"), ("/usr/bin/make", "build"), ("cd x && make", "build"),
        ("cargo +nightly build --release", "build"), ("cargo -v test", "test"),
        ("./gradlew assemble", "build"), ("cmake --build out -j", "build"),
        ("npm run build", "build"), ("npm --prefix web test", "test"), ("npm ci", "install"),
        ("pytest -q tests", "test"), (".venv/bin/pytest", "test"), ("python -m pytest x", "test"),
        ("python3.11 -m pytest", "test"), ("uv run pytest -x", "test"), ("tox", "test"),
        ("uv run --frozen python -m unittest", "test"), ("bundle exec rspec", "test"),
        ("coverage run -m pytest", "test"), ("npx tsc --noEmit", "build"),
        ("go test ./...", "test"),
        ("sudo -E apt-get -y install gcc", "install"), ("pip install -r r.txt", "install"),
        ("CI=1 FOO=bar pytest 2>&1 | tail -5", "test"), ("timeout 60 pytest", "test"),
        ("for i in 1 2; do make $i; done", "build"), ("bash -c 'cargo test'", "test"),
        ("nice -n 10 make", "build"), ("docker compose build web", "build"),
        ("pip install . && pytest", "test"), ("make && pytest", "build"),
        ("make -C dev all", "build"), ("turbo run build", "build"), ("tsc -p web", "build"),
        ("karma start --single-run", "test"), ("mvn package", "build"), ("make server", "build"),
    ],
)  # fmt: skip
def test_builds_tests_and_installs_are_heavy(script, kind):
    assert kind_of(script) == kind


@pytest.mark.parametrize(
    "script",
    [
        "ls", "cat Makefile", "grep -r pytest .", "git commit -m 'make pytest pass'",
        "echo cargo build", "vim make.py", "pytest --help", "pytest --version", "make clean",
        "make -n all --dry-run", "pytest --collect-only", "npm run dev", "npm start", "cargo fmt",
        "jest --watch", "npm view react", "go version", "python script.py", "cargo --version",
        "which make", "rg 'cargo test' docs", "", "docker ps", "python -c 'import pytest'",
        "sed -n 1p tests/test_make.py", "make help",
        "make serve", "make -j8 dev", "make run", "make up", "make watch", "make start",
        "turbo run dev", "tsc -w", "npx tsc -w", "webpack serve", "rollup -c -w", "karma start",
        "./gradlew bootRun", "mvn spring-boot:run", "nix develop", "nix-shell",
    ],
)  # fmt: skip
def test_what_only_looks_or_never_ends_is_light(script):
    assert kind_of(script) is None


def test_the_configuration_adds_and_takes_away_and_the_longest_entry_counts():
    rules = LeaseRules(
        enabled=True,
        commands={
            "./ci.sh": "test",
            "cargo check": "light",
            "make docs": "light",
            "make run": "test",
        },
        learned=("python train.py",),
    )
    table = HeavyCommands(rules)
    assert [kind_of(one, table) for one in ("./ci.sh -x", "sh ci.sh", "scripts/ci.sh")] == [
        "test", None, "test"
    ]  # fmt: skip
    assert kind_of("cargo check", table) is None
    assert kind_of("cargo build", table) == "build"
    assert kind_of("make docs", table) is None
    assert kind_of("make run", table) == "test"
    assert kind_of("python train.py --epochs 3", table) == "learned"


def test_a_lease_names_the_words_and_the_head():
    assert TABLE.find(("bash", "-c", "cd a; .venv/bin/pytest -q")) == HeavyCommand(
        kind="test", command="pytest -q", head="pytest"
    )


def test_a_long_command_is_cut_between_words_so_that_no_half_of_a_secret_is_left():
    before = "make " + "x" * 170
    assert TABLE.find(("bash", "-c", f"{before} TOKEN={'s' * 40}")).command == before
    assert describe_unknown(("simulate", "x" * 190, "s" * 40)).command == f"simulate {'x' * 190}"
    assert TABLE.find(("make", "x" * 195)).command == "make " + "x" * 195
    assert TABLE.find(("make", "x" * 999)).command == "make"


def test_a_command_that_proved_heavy_is_known_from_then_on():
    table = HeavyCommands(LeaseRules(enabled=True))
    script = ("bash", "-c", "cd /w && simulate --all")
    assert table.find(script) is None
    found = describe_unknown(script)
    assert found == HeavyCommand(kind="learned", command="simulate --all", head="simulate")
    table.learn(found.head)
    table.learn(found.head)
    assert table.find(script) == found


@pytest.mark.parametrize(
    "script",
    [
        "python -c 'while 1: pass'", "bash", "a && b", "cd x", "", "$PROGRAM x", "./",
        "' '", "'a b' c",
        "./simulate.sh", "bin/simulate", "uv run ./simulate", "git grep x", "find / -name x",
        "make serve", "x" * 201,
    ],
)  # fmt: skip
def test_what_names_no_single_program_of_every_folder_is_not_learned(script):
    assert describe_unknown(("bash", "-c", script)) is None


@pytest.mark.parametrize("head", ["", " ", "\n"])
def test_a_blank_head_is_not_learned(head):
    table = HeavyCommands(LeaseRules(enabled=True))
    table.learn(head)
    assert kind_of("ls", table) is None


@given(st.lists(st.text(max_size=40), max_size=4))
def test_no_words_break_it(argv):
    TABLE.find(argv)
    if (found := describe_unknown(argv)) is not None:
        HeavyCommands(LeaseRules(enabled=True)).learn(found.head)
