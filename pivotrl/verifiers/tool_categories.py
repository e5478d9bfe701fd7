"""Which kind of tool a name means, over the agent frameworks that NeMo-Gym's `swe_pivot` knows (Gym 07d6b0d0).

Every name counts in any case, and without its underscores (`ExecuteBash`).
"""

UNKNOWN = "unknown"

NAMES = {
    "bash": "bash bash_exec exec_cmd exec_command execute_bash run_bash run_shell_cmd shell shell_cmd shell_command"
    " shell_run terminal",
    "edit": "apply_changes apply_diff apply_patch code_editor create_file edit edit_file file_edit file_editor modify"
    " modify_file patch_file save_file str_replace_editor text_editor update_file write write_file",
    "finish": "finish submit",
    "planning": "edit_plan list_tasks modify_plan plan_tracker read_todos task_tracker todo_read todo_tracker"
    " todo_write update_plan update_tasks write_todos",
    "read": "cat_file file_view inspect read read_file read_file_content show_file view view_file",
    "search": "code_search file_glob find_files find_in_files find_pattern glob grep grep_files list_dir list_directory"
    " ls ls_dir match_files search_files search_text show_dir text_search",
    "think": "think",
}
"""The names of each category, separated by spaces."""

_CATEGORIES = {
    spelled: kind
    for kind, names in NAMES.items()
    for name in names.split()
    for spelled in (name, name.replace("_", ""))
}


def category(name: str) -> str:
    """A key of NAMES, or UNKNOWN."""
    return _CATEGORIES.get(name.lower(), UNKNOWN)
