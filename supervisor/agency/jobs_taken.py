"""Jobs that outlived their call: they go on by themselves, and their asker is told by letters.

Rule guarded: the call that wanted the job was told to the model as interrupted and is never run
again; the job's rows are. An asker that wants the same job again joins it instead of doubling it,
also while it has not read yet that the job has ended.
"""

import trio

from swarm.mailbox.protocol.requests import AnyReply, JobEnded, SpawnOnCsv

from ..journal.reading import run_records
from ..running import Running
from .inherit import NotPossible
from .job_past import CutOff, fold_jobs
from .jobs import Jobs
from .letters import Post
from .member import Member
from .team import Team

_GOES_ON = (
    "Your batch job {job} over {table} was cut off. It has been taken up and goes on by itself; "
    "rows that were done are not run again. You get another message when it has ended. To wait for "
    "it now, call spawn_agents_on_csv once more with the same arguments."
)
_ENDED = "Your batch job {job} over {table}, which had been cut off, has ended: {summary}"
_FAILED = "Your batch job {job} over {table}, which had been cut off, could not go on: {why}"
_LOST = frozenset({"crashed", "killed"})


class _Going:
    def __init__(self, job: CutOff) -> None:
        self.job, self.scope = job, trio.CancelScope()
        self.ended = trio.Event()
        self.reply: AnyReply | None = None
        self.fault = ""
        self.joined = 0  # calls that wait for it


class JobsTaken:
    """Owns the jobs without a call. `idle` is False while any goes on."""

    def __init__(
        self, running: Running, team: Team, post: Post, jobs: Jobs, nursery: trio.Nursery
    ) -> None:
        self._run, self._team, self._post = running, team, post
        self._jobs, self._nursery = jobs, nursery
        self._going: dict[str, _Going] = {}
        self._told: dict[str, _Going] = {}  # ended ones, by the letter that says so
        jobs.on_cut_off = self.take_up

    @property
    def idle(self) -> bool:
        return not self._going

    def restore(self) -> set[str]:
        """Take up what an earlier part of the run left. Returns the ids of all its jobs."""
        past = fold_jobs(run_records(self._run.places))
        for job in past.cut_off.values():
            self.take_up(job)
        return past.ids

    def take_up(self, job: CutOff) -> None:
        """Go on with it in a task of its own."""
        going = self._going[job.began.job_id] = _Going(job)
        self._nursery.start_soon(self._go_on, going)

    async def join(self, asker: Member, wish: SpawnOnCsv) -> AnyReply:
        """Do what the wish asks for: by waiting for the same job if it goes on already."""
        for going in self._going.values():
            if (going.job.asker, going.job.began.wish) == (asker.path, wish):
                return await self._wait(going)
        self._forget_read(asker)
        for mail_id in asker.letters:  # it asks while the letter of the end is on its way
            ended = self._told.get(mail_id)
            if ended is not None and ended.job.began.wish == wish:
                return _reply_of(ended)
        return await self._jobs.run(asker, wish)

    def drop(self, asker: str) -> None:
        """This agent is gone for good: nobody wants its jobs any more."""
        for going in self._going.values():
            if going.job.asker == asker:
                going.scope.cancel()

    def drop_all(self) -> None:
        """A person stops the work, or the run ends (then `Jobs.destine` was told so before)."""
        for going in self._going.values():
            going.scope.cancel()

    async def _wait(self, going: _Going) -> AnyReply:
        going.joined += 1
        try:
            await going.ended.wait()
        finally:
            going.joined -= 1
        return _reply_of(going)

    def _forget_read(self, asker: Member) -> None:
        for mail_id, going in tuple(self._told.items()):
            if going.job.asker == asker.path and mail_id not in asker.letters:
                del self._told[mail_id]

    async def _go_on(self, going: _Going) -> None:
        job = going.job
        try:
            with going.scope:
                asker = await self._find(job.asker)
                if asker.closed or asker.state in _LOST:
                    self._jobs.close(job.asker, job.began.job_id, "cancelled")
                    return
                self._tell(asker, job, _GOES_ON)
                await self._work(going, asker)
        finally:
            del self._going[job.began.job_id]
            going.ended.set()
            self._team.ring()  # the run may be over now

    async def _work(self, going: _Going, asker: Member) -> None:
        job = going.job
        try:
            summary = await self._jobs.go_on(asker, job)
            going.reply = JobEnded(summary=summary)
            words = _ENDED.replace("{summary}", summary.decode(errors="replace"))
        except NotPossible as error:
            going.fault = str(error)
            words = _FAILED.replace("{why}", going.fault)
        if not going.joined:
            self._forget_read(asker)
            self._told[self._tell(asker, job, words, wakes=True)] = going

    async def _find(self, path: str) -> Member:
        """The root is there only once it lives again."""
        while (asker := self._team.find(path)) is None or not asker.epoch:
            await self._team.wait_change()
        return asker

    def _tell(self, asker: Member, job: CutOff, words: str, *, wakes: bool = False) -> str:
        began = job.began
        name = began.job_id[-8:]
        text = words.replace("{job}", name).replace("{table}", began.wish.csv_path)
        author = f"{asker.path}/job_{name}"
        letter = self._post.write(author, asker.path, text, wakes=wakes)
        self._post.post(asker, letter)
        return letter.mail_id


def _reply_of(going: _Going) -> AnyReply:
    if going.reply is None:
        raise NotPossible(going.fault or "the job was cancelled")
    return going.reply
