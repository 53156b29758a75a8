"""What ordinary commands ask under rules as people write them: the table of docs/rules.md."""

import subprocess

import msgspec
import pytest

from swarm.mailbox.base.held_programs import find_writable_places
from swarm.mailbox.protocol.rules import PrefixRule, RuleSet
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.policy.command_decision import Run, decide_command
from swarm.worker.policy.command_facts import gather_facts
from swarm.worker.policy.rule_coverage import Surroundings, why_beyond
from swarm.worker.policy.rule_matching import rule_matcher

# (rule, command); the rule allows, and the command was run outside of the sandbox.
OUTSIDE = """
git status | git status -sb
git fetch | git fetch origin --prune
git fetch | git fetch --all --tags
git pull | git pull origin main
git push | git push origin main
git push | git push -u origin feature/x
git log | git log --oneline -20
git diff | git diff --stat HEAD~1
git show | git show HEAD
git add | git add -A
git commit | git commit -m message
git tag | git tag v1
git remote -v | git remote -v
git ls-remote | git ls-remote origin
git stash | git stash list
ls | ls -la src
cat | cat README.md
head | head -n 20 README.md
grep | grep -rn TODO src
rg | rg -n TODO src
find . | find . -name *.py
wc | wc -l README.md
sort | sort -u README.md
jq . | jq . package.json
sed -n 1,5p | sed -n 1,5p README.md
awk {print} | awk {print} README.md
du | du -sh src
ps | ps aux
df | df -h
date | date +%F
curl -s https://api.example.org | curl -s https://api.example.org
ssh host uptime | ssh host uptime
scp f host: | scp f host:
docker ps | docker ps -a
docker logs | docker logs web
docker pull | docker pull redis
kubectl get | kubectl get pods -o wide
gh pr list | gh pr list --state open
gh pr view | gh pr view 12
systemctl status | systemctl status nginx
apt-get update | apt-get update
touch /tmp/x | touch /tmp/x
""".strip().splitlines()
INSIDE = """
make | make test
npm test | npm test
npm run | npm run build
npm install | npm install
npx | npx eslint .
yarn | yarn build
pytest | pytest -q
python3 -m pytest | python3 -m pytest
python3 tool.py | python3 tool.py
bash tool.py | bash tool.py
cargo | cargo build
go test | go test ./...
pip install | pip install .
tox | tox
docker build | docker build .
curl | curl -o f https://example.org
git push | git push --force
git commit | git commit --no-verify -m x
""".strip().splitlines()


@pytest.fixture
def here(tmp_path):
    project, home = tmp_path / "p", tmp_path / "home"
    (project / "src").mkdir(parents=True)
    home.mkdir()
    for name in ("README.md", "package.json", "f", "tool.py"):
        (project / name).write_text("1\n")
    subprocess.run(["git", "-C", project, "init", "-q"], check=True, capture_output=True)
    return Surroundings(
        str(project), find_writable_places(WorkspaceWrite(), str(project)), str(home)
    )


def leaves(line, here):
    rule, command = line.split(" | ")
    rules = RuleSet(prefixes=(PrefixRule(pattern=tuple((one,) for one in rule.split())),))
    facts = gather_facts(
        tuple(command.split()), Limits(sandbox=WorkspaceWrite()), match_rules=rule_matcher(rules)
    )
    verdict = decide_command(
        msgspec.structs.replace(facts, beyond=why_beyond(facts.commands, here))
    )
    assert isinstance(verdict, Run), "what a rule allows is never asked about"
    return not verdict.sandboxed


def test_there_are_60_ordinary_commands():
    assert len(OUTSIDE) + len(INSIDE) == 60


@pytest.mark.parametrize("line", OUTSIDE)
def test_an_ordinary_command_under_its_rule_leaves_as_before(line, here):
    assert leaves(line, here)


@pytest.mark.parametrize("line", INSIDE)
def test_a_command_that_its_rule_does_not_say_runs_inside_now(line, here):
    assert not leaves(line, here)
