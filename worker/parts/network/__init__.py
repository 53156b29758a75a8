"""The managed network proxy: a process that lets sandboxed commands reach allowed hosts."""
