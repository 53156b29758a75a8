"""What further words make a program do, beyond those of a rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.rules.program_effects import (
    effects_of,
    find_more,
    leaves_open,
    named_files,
    runs_project_code,
)

ACTING = """
sort f | sort f -o g
sort f | sort f -ro g
sort f | sort f --outp=g
sort f | sort f --compress-program=id
tar tf a | tar tf a --checkpoint-action=exec=id
tar tf a | tar tf a -I id
tar | tar xf a
curl https://a | curl https://a -o f
curl https://a | curl https://a -sof
curl https://a | curl https://a https://b
curl | curl -K f
wget https://a | wget https://a --use-askpass=id
wget https://a | wget https://a -Of
git fetch | git fetch --upload-pack=id
git fetch | git fetch --upload-pa id
git fetch | git fetch ext::id
git fetch | git fetch ./sub
git push | git push https://b main
git push | git push git@b:x main
git log | git log --output=f
git diff | git diff --ext-diff
git grep x | git grep x -Oid
git | git push
git | git -c alias.x=!id x
git rebase main | git rebase main -x id
git bisect | git bisect run id
git submodule | git submodule foreach id
find . | find . -exec id ;
find . | find . -delete
find . | find . -fprintf f x
fd x | fd x -x id
rg x | rg x --pre id
rg x | rg x -z
sed -n | sed -n 1w/f
sed -n 1p | sed -n 1p -i
sed -n 1p f | sed -n 1p f --expression=w
awk | awk BEGIN{system("id")}
awk {print} | awk {print} -f f
awk {print} | awk {print} -i inplace
xargs | xargs id
env | env A=1 id
timeout 5 | timeout 5 id
nice | nice id
ssh h | ssh h -oProxyCommand=id
ssh h | ssh h id
scp a h: | scp a h: -S id
rsync a b | rsync a b -e id
rsync a b | rsync a b --rsync-path=id
tee a | tee a b
less f | less f +!id
less f | less f -of
man ls | man ls -Pid
man ls | man ls --pager=id
vim f | vim f -c !id
python3 | python3 f
python3 | python3 -c x
bash | bash f
node | node -e x
uniq a | uniq a b
xxd a | xxd a b
dd if=a | dd if=a of=b
cp a b | cp a b c
docker | docker run x
npm | npm view x
jq . | jq . -f f
zip a b | zip a b -TT id
tcpdump -r f | tcpdump -r f -z id
openssl | openssl s_client
journalctl | journalctl --vacuum-size=1
thing | thing --output=f
thing | thing -o f
thing x | thing x --exec id
thing x | thing x --config=f
/usr/bin/sort f | /usr/bin/sort f -o g
busybox | busybox sh
"""
HARMLESS = """
sort f | sort f -rn g
sort | sort -k1o f
tar tf a | tar tf a x
git fetch | git fetch origin main --prune
git pull | git pull origin main
git push origin | git push origin main
git log | git log --oneline -5 -p src
git diff | git diff --stat HEAD~1
git status | git status -sb
git | git status -s
rg | rg -n foo src
grep -r | grep -r -c x .
find . | find . -name *.py -type f
ls | ls -la
cat | cat f
jq . | jq . f -c
sed -n 1p | sed -n 1p f
awk {print} | awk {print} f
head | head -c 10 f
ps | ps -eo pid
kubectl get | kubectl get pods -o yaml
docker ps | docker ps -a
thing | thing run --verbose -v x
man | man ls
du | du -sh .
date | date +%s
"""


def pairs(text):
    lines = [line.split(" | ") for line in text.strip().splitlines()]
    return [(tuple(a.split()), tuple(b.split())) for a, b in lines]


@pytest.mark.parametrize(("prefix", "words"), pairs(ACTING))
def test_words_that_write_or_run_are_more_than_the_rule(prefix, words):
    assert find_more(prefix, words)


@pytest.mark.parametrize(("prefix", "words"), pairs(HARMLESS))
def test_words_that_choose_what_is_read_are_said_by_the_rule(prefix, words):
    assert find_more(prefix, words) == ""


@pytest.mark.parametrize(("_", "words"), pairs(ACTING))
def test_what_a_rule_writes_out_itself_is_said_by_it(_, words):
    assert find_more(words, words) == ""


@pytest.mark.parametrize(
    ("words", "runs"),
    [("pytest -q", True), ("npm test", True), ("npm --prefix d run x", True), ("make", True),
     ("cargo build", True), ("python3 -m pytest", True), ("pip install .", True), ("tox", True),
     ("docker build .", True), ("go test ./...", True), ("npm view x", False),
     ("go version", False), ("pip list", False), ("git status", False), ("thing", False)],
)  # fmt: skip
def test_programs_that_run_the_projects_code_are_known(words, runs):
    assert runs_project_code(tuple(words.split())) is runs


def test_only_programs_whose_further_words_read_are_left_open():
    known = [
        words for words in ("sort", "git status", "ls", "jq .") if leaves_open((*words.split(),))
    ]
    assert known == ["sort", "git status", "ls", "jq ."]
    exact = (
        "git push",
        "curl x",
        "thing",
        "make",
        "python3 x.py",
        "docker ps",
        "tar tf a",
        "cp a b",
    )
    assert not any(leaves_open(tuple(words.split())) for words in exact)


def test_files_of_code_behind_options_are_named():
    assert "prog.awk" in set(named_files(("awk", "-f", "prog.awk", "x")))
    assert "conf" in set(named_files(("curl", "-Kconf")))
    assert "p.json" in set(named_files(("thing", "--config=p.json")))


def test_a_version_in_a_programs_name_does_not_hide_it():
    assert effects_of("/usr/bin/python3.11").script
    assert effects_of("python3.11").script


WORDS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6).map(tuple)


@given(WORDS, st.integers(1, 6))
def test_any_words_have_an_answer(words, length):
    find_more(words[:length], words)
    leaves_open(words)
    runs_project_code(words)
    list(named_files(words))
