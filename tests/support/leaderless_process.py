"""A process whose first thread has ended while another runs: the kernel calls it a zombie."""

import shlex
import sys

_CODE = """
import ctypes, sys, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
sys.stdout.write("leaderless\\n")
sys.stdout.flush()
ctypes.CDLL(None).pthread_exit(None)
"""
ARGV = (sys.executable, "-I", "-S", "-c", _CODE)  # says "leaderless" just before
SCRIPT = shlex.join(ARGV)
