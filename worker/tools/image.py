"""The door of view_image: the picture becomes a blob of the run, the model gets its address."""

import hashlib

import trio

from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall, InputImage
from swarm.mailbox.protocol.requests import RequestRefused, StoreBlob
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..policy.decide import Run, Verdict
from ..reporter import Reporter
from .errors import ToolFailed
from .router import decode_arguments
from .site import Site
from .spec import ABORTED_CALL, Listen, Outcome, Prepared, Schema, function_spec
from .texts import description_of
from .view_image import ViewedImage, ViewImageArguments, view_image

STORE_LIMIT_S = 30.0
_PROPERTIES: dict[str, Schema] = {
    "path": {"type": "string", "description": "Path of the image file."},
}


class ViewImage:
    """The tool; models without eyes are not told of it."""

    name = "view_image"
    parallel = True
    aborted_text = ABORTED_CALL

    def __init__(self, site: Site, reporter: Reporter) -> None:
        self._site, self._reporter = site, reporter
        self._has_eyes = True

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        self._has_eyes = model.image_input
        if not model.image_input:
            return None
        return function_spec(self.name, description_of(self.name), _PROPERTIES, required=("path",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Prepared:
        arguments = decode_arguments(call, ViewImageArguments)
        if not self._site.may_read(self._site.cwd / arguments.path):
            raise ToolFailed(f"unable to locate image at `{arguments.path}`: Permission denied")
        return _ViewDeed(self._site, self._reporter, arguments, has_eyes=self._has_eyes)


class _ViewDeed:
    def __init__(
        self, site: Site, reporter: Reporter, arguments: ViewImageArguments, *, has_eyes: bool
    ) -> None:
        self._site, self._reporter, self._arguments = site, reporter, arguments
        self._has_eyes = has_eyes

    @property
    def detail(self) -> AnyCallDetail:
        return OtherCall(argument=self._arguments.path[:1000])

    def judge(self) -> Verdict:
        return Run()

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        def look() -> ViewedImage:
            return view_image(
                self._arguments,
                self._site.cwd,
                supports_images=self._has_eyes,
                may_read=self._site.may_read,
            )

        image = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
        digest = hashlib.sha256(image.data).hexdigest()
        try:
            with trio.fail_after(STORE_LIMIT_S):
                reply = await self._reporter.ask(StoreBlob(sha256=digest, data=image.data))
        except trio.TooSlowError as error:
            text = f"unable to store the image: no answer within {STORE_LIMIT_S:.0f} s"
            raise ToolFailed(text) from error
        if isinstance(reply, RequestRefused):
            raise ToolFailed(f"unable to store the image: {reply.message}")
        address = f"blob:{digest};{image.mime}"
        return Outcome(
            content=(InputImage(image_url=address, detail=image.detail),),
            shown=f"{image.mime}, {image.width}x{image.height}",
        )
