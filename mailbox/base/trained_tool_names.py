"""Names by which models learned tools like ours: a call by such a name reaches the tool it means.

Pure: only the table. `worker/tools/trained_calls.py` translates the arguments.
"""

RUN = "exec_command"
READ = "read a file"
LIST = "list_dir"
WRITE = "write a file"
EDIT = "edit_file"
EDITOR = "a text editor"  # one tool with commands: view, create, str_replace, insert
SEARCH = "search files"

# name → what it means: a tool of ours, or one of the kinds above
TRAINED_TOOL_NAMES: dict[str, str] = {
    "shell": RUN,
    "local_shell": RUN,
    "container.exec": RUN,
    "bash": RUN,
    "run_shell_command": RUN,
    "run_command": RUN,
    "execute_command": RUN,
    "run_terminal_cmd": RUN,
    "terminal": RUN,
    "read_file": READ,
    "view_file": READ,
    "open_file": READ,
    "list_files": LIST,
    "list_directory": LIST,
    "ls": LIST,
    "write_file": WRITE,
    "create_file": WRITE,
    "write_to_file": WRITE,
    "replace": EDIT,
    "edit": EDIT,
    "replace_in_file": EDIT,
    "search_replace": EDIT,
    "str_replace_editor": EDITOR,
    "str_replace_based_edit_tool": EDITOR,
    "text_editor": EDITOR,
    "grep": SEARCH,
    "grep_search": SEARCH,
    "search_files": SEARCH,
    "search_file_content": SEARCH,
}
