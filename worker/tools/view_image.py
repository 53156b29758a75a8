"""view_image: load an image file, small enough for a model, and store it as a blob of the run.

Size and kind are read from the header; Pillow (the extra `images`) is imported only to shrink.
"""

import errno
import hashlib
import importlib
import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Protocol, cast

import trio
from msgspec import Struct

from swarm.mailbox.base.safe_open import open_if_allowed, read_start
from swarm.mailbox.protocol.events import OtherCall
from swarm.mailbox.protocol.items import AnyCall, InputImage
from swarm.mailbox.protocol.requests import RequestRefused, StoreBlob
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.base import Value

from ..base.reporter import Reporter
from .image_size import ImageKind, sniff_image
from .interface.function_tool import HIDDEN, DirectInvocation, FunctionTool, decode_arguments
from .interface.tool_context import ToolContext
from .interface.tool_interface import Invocation, ToolFailed, ToolResult

MAX_FILE_BYTES = 20 * 1000 * 1000
MAX_SENT_BYTES = 15 * 1024 * 1024  # limit of a blob on its way to the supervisor
MAX_SIDE = 2048
MAX_PIXELS = 100_000_000  # limit of what shrinking may unpack into memory
STORE_LIMIT_S = 30.0
NO_IMAGES = "view_image is not allowed because you do not support image inputs"
_KEPT_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}


class ViewImageArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    detail: Annotated[str | None, HIDDEN] = None  # only "original" has a meaning


class ViewedImage(Value):
    """The image that the agent stores as a blob and shows to the model."""

    data: bytes
    mime: str
    width: int
    height: int
    detail: Literal["high", "original"] = "high"


def view_image(
    arguments: ViewImageArguments,
    cwd: Path,
    *,
    supports_images: bool = True,
    may_read: Callable[[Path], bool] | None = None,
) -> ViewedImage:
    """Read the image; shrink it to fit 2048 × 2048 unless `detail` is `original`.

    `may_read` is called with the resolved path and exactly that file is opened, because a link may
    have changed since.

    Raises:
        ToolFailed: With a text for the model; nothing on the disk is changed in any case.
    """
    if not supports_images:
        raise ToolFailed(NO_IMAGES)
    if arguments.detail not in (None, "original"):
        raise ToolFailed(
            "view_image.detail only supports `original`; omit `detail` for default resized "
            f"behavior, got `{arguments.detail}`"
        )
    path = Path(os.path.normpath(cwd / arguments.path))
    data = _read_picture(path, may_read)
    kind = sniff_image(data)
    if kind is None:
        raise ToolFailed(
            f"unable to process image at `{path}`: it is not a PNG, JPEG, GIF or WebP file"
        )
    if arguments.detail == "original":
        return _sendable(path, data, kind, "original")
    if max(kind.width, kind.height) > MAX_SIDE:
        data, kind = _shrink(path, data, kind)
    return _sendable(path, data, kind, "high")


def _sendable(
    path: Path, data: bytes, kind: ImageKind, detail: Literal["high", "original"]
) -> ViewedImage:
    if len(data) > MAX_SENT_BYTES:
        raise ToolFailed(
            f"unable to process image at `{path}`: {len(data)} bytes are more than the "
            f"{MAX_SENT_BYTES} that can be sent; make a smaller copy and view that"
        )
    return ViewedImage(
        data=data, mime=kind.mime, width=kind.width, height=kind.height, detail=detail
    )


def _read_picture(path: Path, may_read: Callable[[Path], bool] | None) -> bytes:
    def may(real: str) -> bool:
        return may_read is None or may_read(Path(real))

    try:
        handle = open_if_allowed(path, may)
    except OSError as error:
        raise ToolFailed(f"unable to locate image at `{path}`: {error.strerror}") from error
    try:
        data = read_start(handle, most_bytes=MAX_FILE_BYTES + 1)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL):
            raise ToolFailed(f"image path `{path}` is not a file") from error
        raise ToolFailed(f"unable to read image at `{path}`: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailed(
            f"unable to read image at `{path}`: it is larger than {MAX_FILE_BYTES} bytes"
        )
    return data


class _Picture(Protocol):
    """The part of PIL.Image.Image that is used here."""

    @property
    def size(self) -> tuple[int, int]: ...
    def thumbnail(self, size: tuple[int, int], resample: object, /) -> None: ...
    def save(self, target: io.BytesIO, /, **options: object) -> None: ...


class _Pillow(Protocol):
    """The part of the module PIL.Image that is used here."""

    @property
    def Resampling(self) -> "_Filters": ...
    def open(self, source: io.BytesIO, /) -> _Picture: ...


class _Filters(Protocol):
    @property
    def BILINEAR(self) -> object: ...


def _shrink(path: Path, data: bytes, kind: ImageKind) -> tuple[bytes, ImageKind]:
    failed = f"unable to process image at `{path}`"
    size = f"{kind.width}x{kind.height}"
    if kind.width * kind.height > MAX_PIXELS:
        raise ToolFailed(f"{failed}: {size} pixels are too many to shrink")
    try:
        pillow = cast("_Pillow", importlib.import_module("PIL.Image"))
    except ImportError as error:
        raise ToolFailed(
            f"{failed}: it is {size} and must be shrunk to {MAX_SIDE}x{MAX_SIDE}, which needs "
            "Pillow (the extra `images`), and that is not installed here. A smaller copy, or "
            "detail `original` where the model takes it, works without"
        ) from error
    try:
        picture = pillow.open(io.BytesIO(data))
        picture.thumbnail((MAX_SIDE, MAX_SIDE), pillow.Resampling.BILINEAR)
        target = io.BytesIO()
        form = _KEPT_FORMATS.get(kind.mime, "PNG")
        picture.save(target, format=form)
    except Exception as error:  # a decoder may fail in any way on a hostile file
        raise ToolFailed(f"{failed}: {type(error).__name__}") from error
    mime = "image/" + form.lower()
    return target.getvalue(), ImageKind(mime, *picture.size)


class ViewImageTool(FunctionTool):
    """The view_image tool; offered only to models that accept images."""

    name = "view_image"
    arguments = ViewImageArguments
    parallel = True

    def __init__(self, context: ToolContext, reporter: Reporter) -> None:
        self._context, self._reporter = context, reporter
        self._accepts_images = True

    def is_offered(self, model: ModelInfo) -> bool:
        self._accepts_images = model.image_input
        return model.image_input

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, ViewImageArguments)
        if not self._context.may_read(self._context.cwd / arguments.path):
            raise ToolFailed(f"unable to locate image at `{arguments.path}`: Permission denied")
        detail = OtherCall(argument=arguments.path[:1000])
        return DirectInvocation(detail, partial(self._view, arguments))

    async def _view(self, arguments: ViewImageArguments) -> ToolResult:
        look = partial(
            view_image,
            arguments,
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
