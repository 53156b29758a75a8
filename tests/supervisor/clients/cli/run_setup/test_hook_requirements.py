"""Requirements about hooks hold for new and for resumed runs."""

from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.spec import Inherited
from swarm.roles.config.layers.requirements import Requirements
from swarm.supervisor.clients.cli.run_setup.run_requirements import apply_requirements_to_saved
from swarm.supervisor.request.run_request import RunRequest

OWN = Hook(hook_id="a", event="Stop", command="true")
MANAGED = Hook(hook_id="b", event="Stop", command="true", managed=True)


def test_only_managed_hooks_stay_in_a_resumed_run_where_that_is_required():
    saved = RunRequest(task="t", prompt="p", cwd="/", inherited=Inherited(hooks=(OWN, MANAGED)))
    required = Requirements(managed_hooks_only=True)
    assert apply_requirements_to_saved(saved, required).inherited.hooks == (MANAGED,)
    assert apply_requirements_to_saved(saved, Requirements()).inherited.hooks == (OWN, MANAGED)
