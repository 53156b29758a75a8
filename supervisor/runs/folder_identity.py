"""What a folder is known by, wherever it is moved."""

from pathlib import Path

from swarm.mailbox.protocol.spec import FolderIdentity


def identify_folder(folder: Path) -> FolderIdentity:
    """By its inode, which its contents keep alive. Raises OSError."""
    found = folder.stat()
    return FolderIdentity(path=str(folder), device=found.st_dev, inode=found.st_ino)
