"""Which keys the gateway of a run gets. Pure."""

from ..request.run_request import RunRequest

_BUILT_IN = {
    "openai": ("OPENAI_API_KEY", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"),
    "anthropic": ("ANTHROPIC_API_KEY",),
}


def gateway_keys(request: RunRequest) -> dict[str, str]:
    """The keys of the providers that some agent may use.

    All of them where the gateway has yet to choose the run's provider, for which it must know which
    keys are set, and while it records, so that the file holds none of them.
    """
    if request.model_settings.provider is None or request.gateway.record is not None:
        return request.keys
    used = {request.model_settings.provider, *request.gateway.further}
    names = {name for provider, names in _BUILT_IN.items() if provider in used for name in names}
    for provider in request.gateway.providers:
        if provider.id in used:
            names |= provider.secret_variables
    return {name: value for name, value in request.keys.items() if name in names}
