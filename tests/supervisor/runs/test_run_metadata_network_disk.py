"""A state folder on a network disk is noticed: locks are not safe there."""

import pytest

from swarm.supervisor.runs.run_metadata import find_network_filesystem

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/export/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/local ext4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
host:/x /mnt/over 9p rw 0 0
tmpfs /mnt/over tmpfs rw 0 0
short line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ada/.local/state/swarm", "nfs4"),
        ("/home", "nfs4"),
        ("/home/local/ada", None),
        ("/homestead", None),
        ("/var/lib", None),
        ("/mnt/my share/swarm", "cifs"),
        ("/mnt/over/swarm", None),
    ],
)
def test_the_deepest_and_latest_mount_above_a_folder_says_what_it_lies_on(path, kind):
    assert find_network_filesystem(path, MOUNTS) == kind
