"""Variables by which no command opens an editor or a pager: nobody is there to leave it.

An editor would run on as a session and hold what its caller has locked (git's index). What is said
here counts last: after the person's variables and after the start-up files of a command's shell.
"""

import shlex
from pathlib import PurePosixPath

# git takes this word for "no editor": what needs a message and has none fails at once.
_NO_EDITOR = ":"
# A program that succeeds and changes nothing: what was to be edited stays as it is.
_CHANGES_NOTHING = "true"
_WITHOUT_PAGES = "cat"
_EDITORS = ("EDITOR", "VISUAL", "GH_EDITOR", "HGEDITOR", "JJ_EDITOR", "SVN_EDITOR")
_PAGERS = ("PAGER", "GIT_PAGER", "GH_PAGER", "MANPAGER", "SYSTEMD_PAGER")
# Set always, also where nobody has: a setting in a program's own file would count otherwise.
UNATTENDED_VARIABLES: dict[str, str] = {
    "GIT_EDITOR": _NO_EDITOR,
    "GIT_SEQUENCE_EDITOR": _NO_EDITOR,
    **dict.fromkeys(_EDITORS, _CHANGES_NOTHING),
    **dict.fromkeys(_PAGERS, _WITHOUT_PAGES),
}
# Never inherited: without them their programs take EDITOR, VISUAL or PAGER.
FOR_A_PERSON = frozenset({
    "AWS_PAGER", "BAT_PAGER", "BRZ_EDITOR", "BZR_EDITOR", "CVSEDITOR", "CVS_EDITOR",
    "DARCS_EDITOR", "DELTA_PAGER", "FCEDIT", "GLAB_EDITOR", "GLAB_PAGER", "HGPAGER", "HISTEDIT",
    "JJ_PAGER", "KUBE_EDITOR", "LESSEDIT", "MAN_PAGER", "P4EDITOR", "PSQL_EDITOR",
    "PSQL_EDITOR_LINENUMBER_ARG", "PSQL_PAGER", "RLWRAP_EDITOR", "SENSIBLE_EDITOR", "SUDO_EDITOR",
    "SYSTEMD_EDITOR", "TIG_EDITOR", "VAULT_EDITOR",
})  # fmt: skip
_EXPORT = "export " + " ".join(
    f"{name}={shlex.quote(value)}" for name, value in UNATTENDED_VARIABLES.items()
)


def keep_unattended(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command of a shell that reads start-up files first, which may set the variables anew."""
    match argv:
        case (shell, flags, script, *more) if flags == "-lc" or (
            flags == "-c" and PurePosixPath(shell).name == "zsh"
        ):
            return (shell, flags, f"{_EXPORT}; {script}", *more)
        case _:
            return argv
