"""A plugin of mypy: the keywords of `msgspec.structs.replace` are fields, and their values fit.

msgspec declares them as `**changes: Any`. mypy knows the fields of a struct already, and checks
`dataclasses.replace` by them; here it does the same for structs.
"""

from collections.abc import Callable

from mypy.plugin import FunctionSigContext, Plugin
from mypy.plugins.dataclasses import replace_function_sig_callback
from mypy.types import FunctionLike


class StructReplace(Plugin):
    def get_function_signature_hook(
        self, fullname: str
    ) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return replace_function_sig_callback if fullname == "msgspec.structs.replace" else None


def plugin(version: str) -> type[Plugin]:
    """What mypy asks for."""
    return StructReplace
