"""The command line: parse, build one struct, call one function, map the result to an exit code."""
