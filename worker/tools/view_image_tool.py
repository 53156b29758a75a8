"""The view_image tool: stores the image as a blob of the run and gives the model its address."""

import hashlib

import trio

from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall, InputImage
from swarm.mailbox.protocol.requests import RequestRefused, StoreBlob
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..agent.reporter import Reporter
from ..policy.command_decision import PolicyDecision, Run
from .call_router import decode_arguments
from .tool_context import ToolContext
from .tool_descriptions import description_of
from .tool_errors import ToolFailed
from .tool_interface import ABORTED_CALL, Invocation, OnOutput, Schema, ToolResult, function_spec
from .view_image import ViewedImage, ViewImageArguments, view_image

STORE_LIMIT_S = 30.0
_PROPERTIES: dict[str, Schema] = {
    "path": {"type": "string", "description": "Path of the image file."},
}


class ViewImageTool:
    """The view_image tool; offered only to models that accept images."""

    name = "view_image"
    parallel = True
    aborted_text = ABORTED_CALL

    def __init__(self, site: ToolContext, reporter: Reporter) -> None:
        self._context, self._reporter = site, reporter
        self._accepts_images = True

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        self._accepts_images = model.image_input
        if not model.image_input:
            return None
        return function_spec(self.name, description_of(self.name), _PROPERTIES, required=("path",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, ViewImageArguments)
        if not self._context.may_read(self._context.cwd / arguments.path):
            raise ToolFailed(f"unable to locate image at `{arguments.path}`: Permission denied")
        return _ViewImageInvocation(
            self._context, self._reporter, arguments, has_eyes=self._accepts_images
        )


class _ViewImageInvocation:
    def __init__(
        self,
        site: ToolContext,
        reporter: Reporter,
        arguments: ViewImageArguments,
        *,
        has_eyes: bool,
    ) -> None:
        self._context, self._reporter, self._arguments = site, reporter, arguments
        self._accepts_images = has_eyes

    @property
    def detail(self) -> AnyCallDetail:
        return OtherCall(argument=self._arguments.path[:1000])

    def judge(self) -> PolicyDecision:
        return Run()

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        def look() -> ViewedImage:
            return view_image(
                self._arguments,
                self._context.cwd,
                supports_images=self._accepts_images,
                may_read=self._context.may_read,
            )

        image = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
        digest = hashlib.sha256(image.data).hexdigest()
        try:
            with trio.fail_after(STORE_LIMIT_S):
                reply = await self._reporter.request(StoreBlob(sha256=digest, data=image.data))
        except trio.TooSlowError as error:
            text = f"unable to store the image: no answer within {STORE_LIMIT_S:.0f} s"
            raise ToolFailed(text) from error
        if isinstance(reply, RequestRefused):
            raise ToolFailed(f"unable to store the image: {reply.message}")
        address = f"blob:{digest};{image.mime}"
        return ToolResult(
            content=(InputImage(image_url=address, detail=image.detail),),
            shown=f"{image.mime}, {image.width}x{image.height}",
        )
