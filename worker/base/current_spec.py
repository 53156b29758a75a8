"""An agent's spec with the settings that hold now: one object for session, tools and commands."""

import msgspec

from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.base.moved_path import moved_path
from swarm.mailbox.protocol.ops import LearnRule, ListSkills
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.spec import AgentSpec


class CurrentSpec:
    """Only the agent's session changes it, without an await in between; everybody else reads it.

    A reader takes `spec` again for each decision and keeps no copy of it.
    """

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec

    @property
    def spec(self) -> AgentSpec:
        """The spec as of now; the value itself never changes."""
        return self._spec

    def apply_settings(self, wanted: AgentSettings) -> None:
        """Apply settings between two turns; running commands keep those they were started with."""
        spec = self._spec
        self._spec = msgspec.structs.replace(
            spec,
            model_settings=msgspec.structs.replace(
                spec.model_settings,
                model=wanted.model,
                effort=wanted.effort,
                provider=wanted.provider,
                summary=wanted.summary,
                verbosity=wanted.verbosity,
            ),
            limits=wanted.limits,
            cwd=moved_path(wanted.cwd or spec.cwd, spec.copy.origin, spec.copy.tree),
            fallbacks_taken=wanted.fallbacks_taken,
        )

    def use_fallback(self, reference: ModelReference, *, taken: int) -> None:
        """Use this model from the next request on; `taken` entries of the list are used up."""
        model = msgspec.structs.replace(
            self._spec.model_settings, model=reference.model, provider=reference.provider
        )
        self._spec = msgspec.structs.replace(
            self._spec, model_settings=model, fallbacks_taken=taken
        )

    def learn(self, op: LearnRule | ListSkills) -> None:
        """Allow commands with a prefix, in the running turn too, because a person saved it.

        Or take a new list of skills, of which the model is told with the next turn.
        """
        if isinstance(op, LearnRule):
            rules = self._spec.rules.allowing(op.prefix, exact=op.exact)
            self._spec = msgspec.structs.replace(self._spec, rules=rules)
        else:
            self._spec = msgspec.structs.replace(self._spec, skills=op.lines)
