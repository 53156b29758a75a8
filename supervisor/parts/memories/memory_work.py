"""The work of a memory job: prune, extract what ended runs taught, write the files anew. Blocks.

The caller holds the lock of `MemoryPaths.writing`, so that every claim that is still running is one
of a job that was killed.

Source: Codex's pipeline prune, phase 1, phase 2. Differs: it runs after a run has ended, in a
process of its own; facts are found without a model where none may be asked.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.parts.memories.memory_messages import MemorySettings
from swarm.roles.config.layers.trust import read_trust

from ...journal.journal_reader import read_records
from ...request.saved_request import load_request
from ...runs.paths import UserPaths, paths_of_run
from ...runs.run_list import RunFilter, list_runs
from .consolidation import Consolidation
from .extract_facts import extract_facts
from .fact_gate import FactGate
from .memory_context import remember_path
from .memory_facts import GLOBAL, Fact, Output, hide_secrets
from .memory_jobs import Claim
from .memory_paths import MemoryPaths, find_project
from .memory_store import MemoryStore
from .model_extraction import (
    Ask,
    Asked,
    Consolidated,
    Extracted,
    answer_schema,
    consolidation_prompt,
    extraction_prompt,
    read_consolidation,
    read_extraction,
    slug_of,
)
from .run_evidence import RunEvidence, read_evidence

_MOST_SCANNED = 5000
_DAY_S = 86_400
_MERGE_FROM = 12  # facts; fewer are not worth a model's time


class ModelChoice(NamedTuple):
    """Which model is asked; None: as the configuration says."""

    provider: str | None = None
    model: str | None = None


AskModel = Callable[[ModelChoice, str, dict[str, object], int, float], Asked]


class WorkDone(msgspec.Struct):
    """What a job did, for `swarm memory run` and the log; it grows while the job runs."""

    extracted: int = 0
    left_out: int = 0
    failed: int = 0
    consolidated: int = 0
    pruned: int = 0
    tokens: int = 0
    usd: float = 0.0
    model_failure: str = ""  # why a model that was asked gave nothing: the last time


class MemoryWork:
    """One job.

    Args:
        store: Of the person.
        places: The person's folders.
        settings: Of the run that started the job, or of the configuration.
        ask_model: Asks a model; it gets the tokens and dollars that may be spent.
        redactor: Hides secrets.
        clock: Unix seconds.
    """

    def __init__(
        self,
        store: MemoryStore,
        places: UserPaths,
        settings: MemorySettings,
        ask_model: AskModel,
        *,
        redactor: Redactor,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._places, self._settings = store, places, settings
        self._ask_model = ask_model
        self._redactor, self._clock = redactor, clock
        self._paths = MemoryPaths(places)
        self._files = Consolidation(store, self._paths, summary_tokens=settings.summary_tokens)
        self._done = WorkDone()

    def run(self) -> WorkDone:
        """Do all that there is to do now."""
        now = self._clock()
        self._store.jobs.release_dead()
        if not self._settings.leaves_out_polluted:
            self._store.jobs.extract_again(self._store.left_out())
        pruned = self._store.prune(unused_since=self._settings.unused_since(now))
        self._done.pruned += pruned
        claimed = 0
        for run_id, updated_at in self._sources(now):
            if claimed >= self._settings.most_runs:
                break
            claim = self._store.jobs.claim_extraction(
                run_id, updated_at, token=uuid.uuid4().hex, now=self._clock()
            )
            if isinstance(claim, Claim):
                claimed += 1
                self._try_claim(claim, self._extract)
        for project in self._projects():
            claim = self._store.jobs.claim_consolidation(
                project, token=uuid.uuid4().hex, now=self._clock()
            )
            if isinstance(claim, Claim):
                self._try_claim(claim, self._consolidate)
        return self._done

    def _try_claim(self, claim: Claim, work: Callable[[Claim], None]) -> None:
        try:
            work(claim)
        except (SwarmError, OSError, ValueError) as error:
            self._done.failed += 1
            self._store.jobs.fail(claim, self._redact(str(error)), self._clock())

    def _projects(self) -> tuple[str, ...]:
        """Those with changes, by runs or by a person's edits."""
        for project in self._store.projects():
            self._files.absorb_edits(project, now=self._clock())
        return self._store.jobs.waiting_projects()

    def _sources(self, now: float) -> Iterator[tuple[str, float]]:
        """Ended runs that may be a source, newest first, with the time of their end."""
        oldest = now - self._settings.max_age_days * _DAY_S
        newest = now - self._settings.idle_hours * 3600
        wanted = RunFilter(with_archived=False, limit=_MOST_SCANNED, with_sizes=False)
        for run in list_runs(self._places, wanted):
            updated_at = run.ended or run.started
            if run.state in ("running", "unreadable") or not oldest <= updated_at <= newest:
                continue
            if self._store.jobs.is_extracted(run.run_id, updated_at):
                continue  # its request need not be read again by each job
            try:
                request = load_request(paths_of_run(self._places, run.run_id))
            except SwarmError:
                continue
            memories = request.parts.memories.settings
            if memories.enabled and memories.generate:
                yield run.run_id, updated_at

    # --- extraction -----------------------------------------------------------------------------

    def _extract(self, claim: Claim) -> None:
        evidence = read_evidence(read_records(paths_of_run(self._places, claim.key)))
        project, top = self._project_of(evidence.cwd)
        self._store.note_uses(self._of_project(evidence.cited, project), self._clock())
        gate = FactGate(evidence)
        stale = dict(evidence.stale)
        for fact_id in self._of_project(stale, project):
            why = stale[fact_id]
            told = "an agent found it untrue" if gate.why_not(why) else why
            self._store.mark_stale(fact_id, told, self._clock())
        if evidence.polluted and self._settings.leaves_out_polluted:
            self._store.leave_out(claim, evidence.polluted, now=self._clock())
            self._done.left_out += 1
            return
        untrusted = not self._is_trusted(top)
        facts = list(extract_facts(evidence, project, gate))
        answer, more = self._ask_extraction(evidence, project, gate)
        facts += [one for one in more if one.fact_id not in {fact.fact_id for fact in facts}]
        facts = [
            msgspec.structs.replace(fact, origin=top, untrusted=untrusted)
            for one in facts
            if (fact := self._clean(one)) is not None
        ]
        output = self._output(claim, evidence, project, facts, answer)
        if output is not None:
            output = msgspec.structs.replace(output, origin=top, untrusted=untrusted)
        self._store.finish_extraction(claim, output, facts, now=self._clock())
        self._done.extracted += 1

    def _output(
        self,
        claim: Claim,
        evidence: RunEvidence,
        project: str,
        facts: list[Fact],
        answer: Extracted | None,
    ) -> Output | None:
        if not facts:
            return None
        title = (answer.title if answer else "") or evidence.title
        own = answer.summary if answer else ""
        summary = f"# {title}\n\n{own or f'It ended {evidence.status}.'}"
        return Output(
            run_id=claim.key,
            project=project,
            cwd=evidence.cwd,
            updated_at=claim.watermark,
            raw_memory="\n".join(f"- {fact.text}" for fact in facts),
            summary=self._redact(summary),
            slug=self._redact(slug_of(title)),
            method="facts" if answer is None else "model",
        )

    def _of_project(self, ids: Iterable[str], project: str) -> list[str]:
        """The facts that a run of this project may speak about."""
        found = ((name, self._store.facts.find(name)) for name in ids)
        return [name for name, fact in found if fact is not None and fact.project == project]

    def _is_trusted(self, top: str) -> bool:
        """True if the person trusted the configuration of this folder, or of one inside."""
        found = read_trust(self._places.config).folders.items()
        return any(bool(seen.trusted) and is_within(folder, top) for folder, seen in found)

    def _redact(self, text: str) -> str:
        return self._redactor.redact(hide_secrets(text))

    def _clean(self, fact: Fact) -> Fact | None:
        """The fact, unless it holds a secret."""
        texts = fact.text + fact.place
        return fact if self._redact(texts) == texts else None

    def _project_of(self, cwd: str) -> tuple[str, str]:
        """Whose memories a run in this folder gives, and the top folder of them."""
        own, top = find_project(cwd)
        if self._settings.scope == "global":
            return GLOBAL, top
        project = self._store.project_at(top) or own
        if project == own:
            self._store.settle(top, project)
        for path in {top, cwd}:
            self._store.know_path(path, project)
            remember_path(self._paths.folder, path, project)
        return project, top

    # --- models ---------------------------------------------------------------------------------

    def _ask_extraction(
        self, evidence: RunEvidence, project: str, gate: FactGate
    ) -> tuple[Extracted | None, tuple[Fact, ...]]:
        """What a model finds; nothing where none may be asked, or its answer is none."""
        choice = self._choice(evidence, self._settings.extract_model)
        if choice is None:
            return None, ()
        prompt = self._redact(extraction_prompt(evidence))
        asked = self._asker(choice)(prompt, answer_schema(Extracted))
        if asked.failure:
            return None, ()
        try:
            return read_extraction(asked.text, evidence, project, gate)
        except ValueError:
            self._done.model_failure = "its answer does not have the wanted form"
            return None, ()

    def _consolidate(self, claim: Claim) -> None:
        now = self._clock()
        is_kept = self._files.write(
            claim,
            most=self._settings.most_raw,
            used_since=self._settings.unused_since(now),
            now=now,
            reword=self._merge_by_model,
        )
        self._done.consolidated += is_kept

    def _merge_by_model(self, project: str) -> None:
        """Merge what says the same, by a model if one was chosen for that."""
        model = self._settings.consolidation_model
        facts = self._store.facts.all(project)
        if model is None or len(facts) < _MERGE_FROM or self._settings.method == "facts":
            return
        choice = ModelChoice(self._settings.extract_provider, model)
        prompt = self._redact(consolidation_prompt(facts))
        asked = self._asker(choice)(prompt, answer_schema(Consolidated))
        if asked.failure:
            return
        try:
            merges = read_consolidation(asked.text, facts)
        except ValueError:
            return
        for one in merges:
            self._store.facts.merge_facts(one.ids[0], one.ids[1:])
            self._store.facts.reword(one.ids[0], one.text, now=self._clock(), by_person=False)

    def _choice(self, evidence: RunEvidence, model: str | None) -> ModelChoice | None:
        settings = self._settings
        if settings.method == "facts":
            return None
        provider = settings.extract_provider or evidence.provider or None
        is_own = settings.extract_provider is not None or model is not None
        plain = (provider or "").partition(":")[0]
        if settings.method == "auto" and not is_own and plain in ("local", "scripted", ""):
            return None
        return ModelChoice(provider, model or (None if is_own else evidence.model or None))

    def _asker(self, choice: ModelChoice) -> Ask:
        def ask(prompt: str, schema: dict[str, object]) -> Asked:
            day = time.strftime("%Y-%m-%d", time.gmtime(self._clock()))
            spent = self._store.spent(day)
            tokens = self._settings.budget_tokens - spent.tokens
            usd = self._settings.budget_usd - spent.usd
            if tokens <= 0 or usd <= 0:
                return Asked(failure="the budget of this day is spent")
            asked = self._ask_model(choice, prompt, schema, tokens, usd)
            self._store.spend(day, asked.tokens, asked.usd)
            self._done.tokens += asked.tokens
            self._done.usd += asked.usd
            self._done.model_failure = self._redact(asked.failure) or self._done.model_failure
            return asked

        return ask
