"""Importing what a run needs starts no other program, and changes nothing for what comes later."""

import ctypes.util
import subprocess
import sys

from swarm.mailbox.base.after_fork import skip_library_search

IMPORT = """
import sys
started = []
def note(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.system"):
        started.append(event)
sys.addaudithook(note)
from swarm.mailbox.base.after_fork import skip_library_search
with skip_library_search():
    import trio
from trio._core._thread_cache import set_os_thread_name
print(started, set_os_thread_name is not None)
"""


def test_trio_is_imported_without_another_program_and_can_name_its_threads():
    argv = [sys.executable, "-P", "-c", IMPORT]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert said == "[] True\n"


def test_other_libraries_are_searched_for_as_ever_and_afterwards_all_are():
    search = ctypes.util.find_library
    with skip_library_search():
        assert ctypes.util.find_library("no-such-library-at-all") is None
        assert ctypes.util.find_library("pthread") == search("pthread")
    assert ctypes.util.find_library is search
