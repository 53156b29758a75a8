"""A Secret Service as a desktop has it: gnome-keyring on a D-Bus of its own."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAMS = ("dbus-daemon", "gnome-keyring-daemon")
# Nobody is started on demand: what is gone stays gone.
BUS = """
<busconfig>
  <type>session</type>
  <listen>unix:path={path}</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
  </policy>
</busconfig>
"""
PASSWORD = "of the test's keyring"


def missing_programs():
    return [one for one in PROGRAMS if shutil.which(one) is None]


class SecretService:
    """The running daemons. `environment` leads a program to them."""

    process: "subprocess.Popen[bytes]"  # of the keyring, once it was started

    def __init__(self, folder: Path, address: str) -> None:
        self.environment = {
            "DBUS_SESSION_BUS_ADDRESS": address,
            "XDG_DATA_HOME": str(folder / "data"),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
        }

    def start(self):
        """The keyring, unlocked with its password; it is made the first time."""
        self.process = subprocess.Popen(
            ["gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=self.environment, start_new_session=True,
        )  # fmt: skip
        self.process.stdin.write(PASSWORD.encode())
        self.process.stdin.close()
        self._await_ready()

    def stop(self):
        """Gone, as by a crash or the end of a session."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def lock(self):
        """As a screen lock may do."""
        self._do("import secretstorage as s; s.get_default_collection(s.dbus_init()).lock()")

    def items(self):
        """What it holds, if it is unlocked: secrets as bytes."""
        code = (
            "import secretstorage as s, sys\n"
            "c = s.get_default_collection(s.dbus_init())\n"
            "for i in c.get_all_items(): print(i.get_secret().decode())"
        )
        return self._do(code).splitlines()

    def replace(self, old, new):
        """The item that holds `old` holds `new`."""
        code = (
            "import secretstorage as s, sys\n"
            "old, new = sys.stdin.read().split('\\0')\n"
            "c = s.get_default_collection(s.dbus_init())\n"
            "(item,) = [i for i in c.get_all_items() if i.get_secret().decode() == old]\n"
            "item.set_secret(new.encode())"
        )
        self._do(code, f"{old}\0{new}")

    def _do(self, code, given=""):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], env=self.environment, capture_output=True,
            text=True, timeout=30, input=given,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _await_ready(self):
        """The daemon takes its name before it has opened the keyring."""
        code = (
            "import secretstorage as s, time\n"
            "while True:\n"
            "    try:\n"
            "        c = s.Collection(s.dbus_init(), '/org/freedesktop/secrets/collection/login')\n"
            "        if not c.is_locked(): break\n"
            "    except Exception: time.sleep(0.02)\n"
        )
        self._do(code)


@contextmanager
def running_secret_service():
    """gnome-keyring within the block, in a short folder: sockets have short names."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ring-")))
        (folder / "data").mkdir()
        config = folder / "bus.conf"
        config.write_text(BUS.format(path=folder / "bus"))
        bus = stack.enter_context(
            subprocess.Popen(
                ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address=1"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
        )  # fmt: skip
        stack.callback(bus.kill)
        service = SecretService(folder, bus.stdout.readline().strip())
        stack.callback(service.stop)
        service.start()
        yield service
