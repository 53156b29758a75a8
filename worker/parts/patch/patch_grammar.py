"""What a model is told about apply_patch: the lark grammar and both descriptions. Text only."""

ALIASES = ("apply_patch", "applypatch")

GRAMMAR = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""

FREEFORM_DESCRIPTION = (
    "Edit files. This tool takes the patch as free text: write the patch itself, not JSON."
)

FUNCTION_DESCRIPTION = """\
Edit files by a patch. `input` is the whole patch:

*** Begin Patch
*** Update File: <path>
@@ <line of the class or function>
 <unchanged line>
-<line that goes>
+<line that comes>
*** Add File: <path>
+<line>
*** Delete File: <path>
*** End Patch

`Add File` is followed by `+` lines, and replaces a file that exists. `Delete File` stands alone. \
`Update File` may be followed by `*** Move to: new/path`, then by one or more chunks. In a chunk \
a leading space marks an unchanged line, `-` one that goes, `+` one that comes. Give about three \
unchanged lines around each change, copied exactly. Where that does not single out the place, \
start the chunk with `@@` and the line of the class or function that holds it. Every chunk but the \
first must start with `@@`. End a chunk with `*** End of File` when it touches the last lines. \
Paths are relative to the working directory."""
