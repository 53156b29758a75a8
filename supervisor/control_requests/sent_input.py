"""The input that a person's words and images become; checked before anything is journaled."""

import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import Refused, SendText
from swarm.mailbox.protocol.ops import ImageInput, UserInput, UserInputPart

from ..context.run_context import RunContext
from ..context.typed_input import typed_parts
from ..runs.image_blobs import store_image

_MAX_ID_CHARS = 64
_MAX_IMAGES = 16


async def make_input(running: RunContext, path: str, request: SendText) -> UserInput | Refused:
    """The input for the agent at `path`, with its images stored in the run's folder."""
    input_id = request.input_id
    if len(input_id) > _MAX_ID_CHARS or not all(c.isalnum() or c in "-_" for c in input_id):
        return Refused(message="an input's id has at most 64 letters, digits, - and _", exit_code=2)
    if len(request.images) > _MAX_IMAGES:
        return Refused(message=f"at most {_MAX_IMAGES} images with one input", exit_code=2)
    parts: list[UserInputPart] = []
    for image in request.images:
        try:
            url, name = await trio.to_thread.run_sync(store_image, running.paths.blobs, image)
        except UsageError as error:
            return Refused(message=str(error), exit_code=2)
        parts.append(ImageInput(image_url=url, name=name))
    try:
        typed = await typed_parts(running, request.text, agent=path)
    except UsageError as error:
        return Refused(message=str(error), exit_code=2)
    return UserInput(
        input_id=input_id or running.entropy.new_id(),
        parts=(*parts, *typed),
        output_schema=running.request.answer_schema if path == ROOT_PATH else None,
    )
