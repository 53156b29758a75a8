"""Writes the section of AGENTS.md that swarm keeps, and puts it into a file. Pure.

The section stands between two marks. What a person wrote outside of them stays as it is, byte for
byte; what stands between them is replaced.
"""

import re
from collections import Counter

from swarm.mailbox.base.errors import UsageError

from .build_commands import BuildCommand, find_commands, line_width, project_description
from .repository_survey import FolderSurvey, RepositorySurvey

BEGIN = "<!-- swarm init: begin. What stands between these marks is replaced by `swarm init`. -->"
END = "<!-- swarm init: end -->"
_MARK = re.compile(r"^<!-- swarm init: (?P<kind>begin|end)\b[^\n]*-->[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9][\w.+@ -]{0,63}")
_TYPED = re.compile(
    r"(?:feat|fix|docs|chore|refactor|test|ci|build|perf|style|revert)(?:\([^)]*\))?!?: "
)
_TEST_FOLDERS = frozenset(("test", "tests", "spec", "specs", "__tests__", "e2e"))
_LANGUAGES = {
    ".py": "Python", ".js": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".rs": "Rust",
    ".go": "Go", ".java": "Java", ".kt": "Kotlin", ".c": "C", ".h": "C", ".cpp": "C++",
    ".cs": "C#", ".rb": "Ruby", ".php": "PHP", ".ex": "Elixir", ".swift": "Swift",
    ".sh": "shell", ".md": "Markdown", ".html": "HTML", ".css": "CSS", ".sql": "SQL",
}  # fmt: skip
_STYLE = (".prettierrc", "eslint.config.js", "biome.json", ".golangci.yml")
_MOST_FOLDERS = 20
SECTION_BYTES = 16 << 10


def section_from_files(survey: RepositorySurvey) -> str:
    """The facts of a survey as Markdown; names that are no plain names are counted, not shown."""
    parts = [_about(survey), _layout(survey), _commands(find_commands(survey))]
    parts += [_tests(survey), _conventions(survey)]
    return "\n\n".join(part for part in parts if part)


def section_from_answer(answer: str) -> str | None:
    """The section in a model's answer; None if it is empty, too long, or without a heading."""
    text = answer.strip()
    if fenced := re.fullmatch(r"```(?:markdown|md)?\n(.*)\n```", text, re.DOTALL):
        text = fenced[1].strip()
    text = _MARK.sub("", text).strip()
    has_heading = re.search(r"^#{1,3} \S", text, re.MULTILINE) is not None
    return text if has_heading and len(text.encode()) <= SECTION_BYTES else None


def with_section(existing: str, section: str, *, name: str) -> str:
    """The file with this section: in place of its old one, else at its end.

    Args:
        existing: The file as it is; "" if there is none.
        section: Markdown.
        name: Of the project, for the heading of a new file.

    Raises UsageError if the marks in the file are damaged.
    """
    block = f"{BEGIN}\n\n{section.strip()}\n\n{END}\n"
    if not existing.strip():
        title = name if _NAME.fullmatch(name) else "This project"
        return f"# {title}\n\n{block}"
    marks = list(_MARK.finditer(existing))
    kinds = [mark["kind"] for mark in marks]
    if kinds == ["begin", "end"]:
        return existing[: marks[0].start()] + block + existing[marks[1].end() :].removeprefix("\n")
    if kinds:
        raise UsageError(
            "AGENTS.md: the marks of `swarm init` do not stand as one begin and one end; take out "
            "what is left of them"
        )
    return f"{existing.rstrip()}\n\n{block}"


def _about(survey: RepositorySurvey) -> str:
    description = project_description(survey)
    kinds = Counter[str]()
    for folder in survey.folders:
        if folder.kinds and (language := _LANGUAGES.get(folder.kinds[0])):
            kinds[language] += folder.files
    lines = [f"> {description}"] if description else []
    if kinds:
        lines.append(f"Mostly {' and '.join(name for name, _ in kinds.most_common(2))}.")
    pages = [name for name in ("README.md", "README.rst", "README", "CONTRIBUTING.md")
             if name in survey.present]  # fmt: skip
    if pages:
        lines.append(f"Read first: {', '.join(f'`{name}`' for name in pages)}.")
    return "\n\n".join(lines)


def _layout(survey: RepositorySurvey) -> str:
    named = [folder for folder in survey.folders if _NAME.fullmatch(folder.name)]
    lines = [_folder_line(folder) for folder in named[:_MOST_FOLDERS]]
    if more := len(survey.folders) - len(lines):
        lines.append(f"- and {more} more")
    if survey.is_cut:
        lines.append("- (counts are of the part that was looked at)")
    return "\n".join(("## Layout", "", *lines)) if lines else ""


def _folder_line(folder: FolderSurvey) -> str:
    known = [_LANGUAGES[kind] for kind in folder.kinds if kind in _LANGUAGES]
    what = f", mostly {known[0]}" if known else ""
    return f"- `{folder.name}/`: {_count(folder)}{what}"


def _count(folder: FolderSurvey) -> str:
    return "1 file" if folder.files == 1 else f"{folder.files:,} files"


def _commands(commands: tuple[BuildCommand, ...]) -> str:
    if not commands:
        return ""
    lines = [f"- {one.purpose}: `{one.command}` ({one.source})" for one in commands]
    return "\n".join(("## Commands", "", *lines))


def _tests(survey: RepositorySurvey) -> str:
    folders = [one for one in survey.folders if one.name.lower() in _TEST_FOLDERS]
    lines = [f"- `{one.name}/`: {_count(one)}" for one in folders]
    return "\n".join(("## Tests", "", *lines)) if lines else ""


def _conventions(survey: RepositorySurvey) -> str:
    lines: list[str] = []
    if (width := line_width(survey)) is not None:
        lines.append(f"- Lines have at most {width} characters (pyproject.toml).")
    formats = [name for name in (".editorconfig", "rustfmt.toml") if name in survey.files]
    lines += [f"- Formatting follows `{name}`." for name in formats]
    lines += [f"- `{name}` has the rules of style." for name in _STYLE if name in survey.present]
    if "CHANGELOG.md" in survey.present:
        lines.append("- `CHANGELOG.md` tells what changed.")
    lines += _commit_lines(survey.subjects)
    return "\n".join(("## Conventions", "", *lines)) if lines else ""


def _commit_lines(subjects: tuple[str, ...]) -> list[str]:
    """How commits are worded, counted; no subject is quoted."""
    if len(subjects) < 5:
        return []
    typed = sum(_TYPED.match(one) is not None for one in subjects)
    if typed * 10 >= len(subjects) * 6:
        return [f"- Commit subjects have the form `type: what changed` ({typed} of the last "
                f"{len(subjects)})."]  # fmt: skip
    capital = sum(one[:1].isupper() for one in subjects)
    middle = sorted(map(len, subjects))[len(subjects) // 2]
    case = "a capital letter" if capital * 10 >= len(subjects) * 7 else "a small letter"
    return [f"- Commit subjects begin with {case} and have about {middle} characters."]
