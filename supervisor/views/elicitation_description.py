"""What an MCP server asks a person, as lines and as questions one after the other. Pure.

All texts are the server's: every one is shown exactly.
"""

from swarm.mailbox.contents.form_values import looks_secret
from swarm.mailbox.protocol.approvals import (
    AnyAction,
    PersonQuestion,
    QuestionOption,
    QuestionsAction,
)
from swarm.mailbox.protocol.elicitation import ElicitationAction, FormField

from ..base.safe_text import exact_line, exact_lines

SECRET_CAUTION = (
    "it looks like a secret: a server must not ask for one in a form; what you type goes to it"
)
PAGE_CAUTION = "nothing was opened: look at the host, and open it yourself if you expect it"
_KINDS = {
    "text": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "choice": "one of the choices",
    "choices": "some of the choices",
}


def describe_elicitation(action: ElicitationAction) -> str:
    """What is asked, in one line."""
    if action.url:
        return f"{action.server} wants you to open {action.url}: {action.message}"
    return f"{action.server} asks: {action.message}"


def elicitation_lines(action: ElicitationAction) -> list[str]:
    """Who asks, what, and every field."""
    source = exact_line(action.source) or "?"
    tool = exact_line(action.tool)
    lines = [f"MCP server {exact_line(action.server)} ({source}) asks during its tool {tool}"]
    lines += [f"| {line}" for line in exact_lines(action.message)]
    if action.url:
        lines += [*page_lines(action), PAGE_CAUTION]
    for field in action.fields:
        lines += _field_lines(field)
    return lines


def page_lines(action: ElicitationAction) -> list[str]:
    """The whole address, and the host on a line of its own."""
    host = exact_line(action.host)
    lines = [f"on the host: {host}", f"address: {exact_line(action.url)}"]
    if any(part.startswith("xn--") for part in host.split(".")):
        lines.append("its name has other letters than a to z, and may look like another host's")
    return lines


def _field_lines(field: FormField) -> list[str]:
    lines = [f"{exact_line(field.name)}: {exact_line(field_text(field))}"]
    for number, choice in enumerate(field.choices, start=1):
        title = f": {exact_line(choice.title)}" if choice.title not in ("", choice.value) else ""
        lines.append(f"  {number}. {exact_line(choice.value)}{title}")
    if looks_secret(field):
        lines.append(f"  {SECRET_CAUTION}")
    return lines


def field_text(field: FormField) -> str:
    """What is wanted: title, description, kind, bounds, default. Not cleaned."""
    about = ". ".join(filter(None, (field.title, field.description)))
    wanted = [field.text_format or _KINDS[field.kind]]
    if (bounds := _bounds(field)) != "":
        wanted.append(bounds)
    if field.default is not None:
        wanted.append(f"default: {', '.join(field.default)}")
    elif not field.required:
        wanted.append("may be left out")
    return f"{about} ({'; '.join(wanted)})".strip()


def _bounds(field: FormField) -> str:
    unit = {"text": " characters", "choices": " choices"}.get(field.kind, "")
    if field.least is None and field.most is None:
        return ""
    if field.least is None:
        return f"at most {field.most:g}{unit}"
    if field.most is None:
        return f"at least {field.least:g}{unit}"
    return f"{field.least:g} to {field.most:g}{unit}"


def questions_of(action: AnyAction) -> tuple[PersonQuestion, ...]:
    """What a person is asked one after the other: a model's questions, or the fields of a form."""
    match action:
        case QuestionsAction(questions=questions):
            return questions
        case ElicitationAction(fields=fields):
            return tuple(_as_question(one) for one in fields)
        case _:
            return ()


def _as_question(field: FormField) -> PersonQuestion:
    caution = f" — {SECRET_CAUTION}" if looks_secret(field) else ""
    options = tuple(QuestionOption(label=one.value, description=one.title) for one in field.choices)
    if field.kind == "boolean":
        options = (QuestionOption(label="yes"), QuestionOption(label="no"))
    return PersonQuestion(
        id=field.name,
        header=field.title or field.name,
        question=f"{field.name}: {field_text(field)}{caution}",
        options=options if field.kind != "choices" else (),
    )


def may_skip(action: AnyAction, name: str) -> bool:
    """True if a field has a default, or may be left out."""
    fields = action.fields if isinstance(action, ElicitationAction) else ()
    return any(one.name == name and (one.default is not None or not one.required) for one in fields)
