"""What the kernel offers to its parts."""
