"""Batch jobs that outlived their call: they continue by themselves and mail their asker.

The call that requested the job was reported to the model as interrupted and never runs again; the
job's rows do. An asker that requests the same job again joins it instead of starting a second one,
even if it has not read yet that the job has ended.
"""

import trio

from swarm.mailbox.parts.jobs.job_messages import JobEnded, SpawnOnCsv

from ....agents.agent_record import Agent
from ....agents.child_plan import AgentRequestError
from ....part_access.part_host import PartHost, PartTeam
from ..job_history import JobHistory, UnfinishedJob
from .job_runner import JobRunner

_CONTINUES = (
    "Your batch job {job} over {table} was cut off. It has been taken up and goes on by itself; "
    "rows that were done are not run again. You get another message when it has ended. To wait for "
    "it now, call spawn_agents_on_csv once more with the same arguments."
)
_ENDED = "Your batch job {job} over {table}, which had been cut off, has ended: {summary}"
_FAILED = "Your batch job {job} over {table}, which had been cut off, could not go on: {why}"
_LOST_STATES = frozenset({"crashed", "killed"})


class _DetachedJob:
    def __init__(self, job: UnfinishedJob) -> None:
        self.job, self.scope = job, trio.CancelScope()
        self.ended = trio.Event()
        self.reply: JobEnded | None = None
        self.fault = ""
        self.joined = 0  # calls that wait for it


class DetachedJobs:
    """Owns the jobs without a call. `is_idle` is False while any runs."""

    def __init__(self, host: PartHost, team: PartTeam, nursery: trio.Nursery) -> None:
        self._team = host.agents
        self._mail = team.mail
        self._nursery = nursery
        self.jobs = JobRunner(host, team, nursery, on_cut_off=self.start)
        self._running: dict[str, _DetachedJob] = {}
        self._announced: dict[str, _DetachedJob] = {}  # ended jobs, by the id of the mail about it

    @property
    def is_idle(self) -> bool:
        return not self._running

    def restore(self, past: JobHistory) -> None:
        """Continue the jobs that an earlier part of the run left."""
        for job in past.unfinished.values():
            self.start(job)

    def start(self, job: UnfinishedJob) -> None:
        """Continue the job in a task of its own."""
        going = self._running[job.began.job_id] = _DetachedJob(job)
        self._nursery.start_soon(self._continue, going)

    async def join(self, asker: Agent, request: SpawnOnCsv) -> JobEnded:
        """Serve the request; wait for the same job if it already runs."""
        for going in self._running.values():
            if (going.job.asker, going.job.began.request) == (asker.path, request):
                return await self._wait(going)
        self._forget_read(asker)
        for mail_id in asker.unread_mail:  # the mail that reports the end may still be on its way
            ended = self._announced.get(mail_id)
            if ended is not None and ended.job.began.request == request:
                return _reply_of(ended)
        return await self.jobs.run(asker, request)

    def cancel_jobs_of(self, asker: str) -> None:
        """Cancel the jobs of an agent that is gone for good."""
        for going in self._running.values():
            if going.job.asker == asker:
                going.scope.cancel()

    def cancel_all(self) -> None:
        """Cancel all jobs. The caller has set their fate with `JobRunner.set_fate` before."""
        for going in self._running.values():
            going.scope.cancel()

    async def _wait(self, going: _DetachedJob) -> JobEnded:
        going.joined += 1
        try:
            await going.ended.wait()
        finally:
            going.joined -= 1
        return _reply_of(going)

    def _forget_read(self, asker: Agent) -> None:
        for mail_id, going in tuple(self._announced.items()):
            if going.job.asker == asker.path and mail_id not in asker.unread_mail:
                del self._announced[mail_id]

    async def _continue(self, going: _DetachedJob) -> None:
        job = going.job
        try:
            with going.scope:
                asker = await self._wait_for_asker(job.asker)
                if asker.closed or asker.status in _LOST_STATES:
                    self.jobs.close_job(job.asker, job.began.job_id, "cancelled")
                    return
                self._notify(asker, job, _CONTINUES)
                await self._run_to_end(going, asker)
        finally:
            del self._running[job.began.job_id]
            going.ended.set()
            self._team.notify_change()  # the run may be over now

    async def _run_to_end(self, going: _DetachedJob, asker: Agent) -> None:
        job = going.job
        try:
            summary = await self.jobs.continue_job(asker, job)
            going.reply = JobEnded(summary=summary)
            template = _ENDED.replace("{summary}", summary.decode(errors="replace"))
        except AgentRequestError as error:
            going.fault = str(error)
            template = _FAILED.replace("{why}", going.fault)
        if not going.joined:
            self._forget_read(asker)
            self._announced[self._notify(asker, job, template, wakes=True)] = going

    async def _wait_for_asker(self, path: str) -> Agent:
        """Wait for the asker's process: the root has none until it is restarted."""
        while (asker := self._team.find(path)) is None or not asker.has_started:
            await self._team.wait_change()
        return asker

    def _notify(
        self, asker: Agent, job: UnfinishedJob, template: str, *, wakes: bool = False
    ) -> str:
        began = job.began
        name = began.job_id[-8:]
        text = template.replace("{job}", name).replace("{table}", began.request.csv_path)
        author = f"{asker.path}/job_{name}"
        mail = self._mail.make_mail(author, asker.path, text, wakes=wakes)
        self._mail.send(asker, mail)
        return mail.mail_id


def _reply_of(going: _DetachedJob) -> JobEnded:
    if going.reply is None:
        raise AgentRequestError(going.fault or "the job was cancelled")
    return going.reply
