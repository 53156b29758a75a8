"""The filter's verdict for each call, found by running its program in a small BPF machine."""

import errno
import struct

import pytest

from swarm.worker.sandbox.notify_filter import CONNECT_CALLS, build_notify_filter
from swarm.worker.sandbox.seccomp import FilterRequest, UnsupportedMachine, build_filter

X86, ARM = "x86_64", "aarch64"
AUDIT = {X86: 0xC000003E, ARM: 0xC00000B7}
ALLOW, KILL, NOTIFY = "allow", "kill", "notify"


def run(program: bytes, *, machine: str, call: int, arguments: tuple[int, ...] = ()) -> str | int:
    """What the kernel would do: "allow", "kill", or the errno."""
    arguments = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", call, AUDIT.get(machine, 1), 0, *arguments)
    steps = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:
        code, yes, no, k = steps[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, k)
        elif code == 0x06:
            names = {0x7FFF0000: ALLOW, 0x80000000: KILL, 0x7FC00000: NOTIFY}
            return names.get(k, k & 0xFFFF)
        else:
            taken = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[code]
            at += yes if taken else no


def looped(call, *arguments, machine=X86, unix=True):
    request = FilterRequest(network=False, loopback=True, unix=unix, machine=machine)
    return run(build_filter(request), machine=machine, call=call, arguments=arguments)


def verdict(call, *arguments, machine=X86, network=False, connect=True):
    request = FilterRequest(network=network, connect=connect, machine=machine)
    return run(build_filter(request), machine=machine, call=call, arguments=arguments)


NUMBERS = {  # call → x86-64, aarch64
    "read": (0, 63), "execve": (59, 221), "clone": (56, 220), "clone3": (435, 435),
    "ptrace": (101, 117), "mount": (165, 40), "unshare": (272, 97), "ioctl": (16, 29),
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "sendto": (44, 206),
    "bpf": (321, 280), "keyctl": (250, 219), "io_uring_setup": (425, 425), "setns": (308, 268),
    "process_vm_readv": (310, 270), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "kexec_load": (246, 104), "pivot_root": (155, 41), "openat": (257, 56), "sendmsg": (46, 211),
}  # fmt: skip
EPERM = errno.EPERM
BIG = 1 << 32
CASES = [
    ("read", (), ALLOW), ("openat", (), ALLOW), ("execve", (), ALLOW), ("sendmsg", (), ALLOW),
    ("ptrace", (), EPERM), ("mount", (), EPERM), ("pivot_root", (), EPERM), ("bpf", (), EPERM),
    ("keyctl", (), EPERM), ("io_uring_setup", (), EPERM), ("setns", (), EPERM),
    ("process_vm_readv", (), EPERM), ("userfaultfd", (), EPERM), ("perf_event_open", (), EPERM),
    ("kexec_load", (), EPERM), ("clone3", (), errno.ENOSYS),
    ("clone", (0x01200011,), ALLOW), ("clone", (0x4111,), ALLOW),
    ("clone", (0x10000011,), EPERM), ("clone", (0x00020011,), EPERM),
    ("unshare", (0x200,), ALLOW), ("unshare", (0x10000000,), EPERM), ("unshare", (0x80,), EPERM),
    ("ioctl", (0, 0x5401), ALLOW), ("ioctl", (0, 0x5412), EPERM), ("ioctl", (0, 0x541C), EPERM),
    ("ioctl", (0, BIG | 0x5412), EPERM),
    ("socket", (1,), ALLOW), ("socket", (2,), EPERM), ("socket", (10,), EPERM),
    ("socket", (16,), EPERM), ("socket", (17,), EPERM), ("socket", (40,), EPERM),
    ("socketpair", (1,), ALLOW), ("socketpair", (2,), EPERM), ("connect", (), ALLOW),
]  # fmt: skip


@pytest.mark.parametrize("machine", [X86, ARM])
@pytest.mark.parametrize(("name", "arguments", "expected"), CASES)
def test_each_call_gets_its_verdict(name, arguments, expected, machine):
    call = NUMBERS[name][machine == ARM]
    assert verdict(call, *arguments, machine=machine) == expected


@pytest.mark.parametrize("machine", [X86, ARM])
def test_a_granted_network_opens_sockets_and_nothing_else(machine):
    column = machine == ARM
    for family in (1, 2, 10, 16):
        call = NUMBERS["socket"][column]
        assert verdict(call, family, 1, machine=machine, network=True, connect=False) == ALLOW
    for name in ("socket", "socketpair"):
        call = NUMBERS[name][column]
        assert verdict(call, 1, 5 | 0o2000000, machine=machine, network=True) == ALLOW
        for kind in (2, 3, 2 | 0o4000):  # what sends to any path without connecting
            answer = ALLOW if name == "socketpair" else EPERM  # the launcher makes another pair
            assert verdict(call, 1, kind, machine=machine, network=True) == answer
        assert verdict(call, 2, 2, machine=machine, network=True) == ALLOW
    assert verdict(NUMBERS["ptrace"][column], machine=machine, network=True) == EPERM
    connect = NUMBERS["connect"][column]
    assert verdict(connect, machine=machine, network=True, connect=False) == ALLOW


@pytest.mark.parametrize(
    ("address", "expected"), [(0, ALLOW), (4096, EPERM), (BIG, EPERM), (7 * BIG, EPERM)]
)
@pytest.mark.parametrize("machine", [X86, ARM])
def test_without_connect_a_datagram_may_not_carry_an_address(machine, address, expected):
    column = machine == ARM
    assert verdict(NUMBERS["connect"][column], machine=machine, connect=False) == EPERM
    arguments = (3, 4096, 1, 0, address)
    found = verdict(NUMBERS["sendto"][column], *arguments, machine=machine, connect=False)
    assert found == expected


def test_calls_of_another_architecture_kill():
    program = build_filter(FilterRequest(network=False, machine=X86))
    assert run(program, machine="other", call=0) == KILL
    assert run(program, machine=X86, call=0x40000000) == KILL


def test_an_unknown_machine_is_an_error_and_not_an_empty_filter():
    with pytest.raises(UnsupportedMachine, match="riscv64"):
        build_filter(FilterRequest(network=False, machine="riscv64"))


LOOPED = [
    ("socket", (2, 1), ALLOW), ("socket", (10, 2), ALLOW), ("socket", (1, 1), ALLOW),
    ("socket", (1, 5 | 0o2004000), ALLOW), ("socket", (1, 2), EPERM), ("socket", (1, 3), EPERM),
    ("socket", (1, 2 | 0o4000), EPERM), ("socket", (BIG | 1, 2), EPERM),
    ("socket", (16, 3), EPERM), ("socket", (17, 3), EPERM), ("socket", (0, 0), EPERM),
    ("socketpair", (1, 1), ALLOW), ("socketpair", (1, 1 | 0o2004000), ALLOW),
    ("socketpair", (1, 5), ALLOW), ("socketpair", (1, 2), ALLOW), ("socketpair", (1, 3), ALLOW),
    ("socketpair", (1, 2 | 0o2000000), ALLOW), ("socketpair", (2, 1), EPERM),
    ("socketpair", (1, 4), EPERM), ("socketpair", (1, 2 | 0o100), EPERM),
    ("connect", (), ALLOW), ("sendto", (3, 0, 0, 0, 1), ALLOW), ("sendmsg", (), ALLOW),
    ("ptrace", (), EPERM), ("io_uring_setup", (), EPERM), ("read", (), ALLOW),
    ("unshare", (0x40000000,), EPERM), ("setns", (), EPERM), ("clone", (0x40000011,), EPERM),
]  # fmt: skip


@pytest.mark.parametrize("machine", [X86, ARM])
@pytest.mark.parametrize(("name", "arguments", "expected"), LOOPED)
def test_in_a_network_of_its_own_there_are_internet_sockets_and_connected_unix_ones(
    machine, name, arguments, expected
):
    number = NUMBERS[name][machine == ARM]
    assert looped(number, *arguments, machine=machine) == expected


@pytest.mark.parametrize("machine", [X86, ARM])
def test_each_pair_of_datagrams_that_one_filter_lets_pass_waits_by_the_other(machine):
    waits = build_notify_filter(CONNECT_CALLS, machine)
    call = NUMBERS["socketpair"][machine == ARM]
    for kind in (2, 3, 2 | 0o4000, 3 | 0o2000000, 2 | 0o2004000, BIG | 2):
        assert run(waits, machine=machine, call=call, arguments=(1, kind)) == NOTIFY
    for kind in (1, 5, 1 | 0o2004000):
        assert run(waits, machine=machine, call=call, arguments=(1, kind)) == ALLOW


@pytest.mark.parametrize("network", [True, False])
@pytest.mark.parametrize("machine", [X86, ARM])
def test_where_nobody_looks_at_connections_no_unix_socket_is_made_but_in_pairs(machine, network):
    request = FilterRequest(network=network, loopback=not network, unix=False, machine=machine)
    calls = [("socket", (1, 1), EPERM), ("socketpair", (1, 1), ALLOW), ("socket", (2, 1), ALLOW)]
    for name, arguments, expected in calls:
        call = NUMBERS[name][machine == ARM]
        found = run(build_filter(request), machine=machine, call=call, arguments=arguments)
        assert found == expected


def shared(call, *arguments, machine=X86):
    request = FilterRequest(network=False, connect=False, shared=True, machine=machine)
    return run(build_filter(request), machine=machine, call=call, arguments=arguments)


SHARED = {  # call → x86-64, aarch64
    "shmget": (29, 194), "shmat": (30, 196), "semop": (65, 193), "msgrcv": (70, 188),
    "mq_open": (240, 180), "prlimit64": (302, 261), "socket": (41, 198), "socketpair": (53, 199),
    "read": (0, 63), "unshare": (272, 97),
}  # fmt: skip


@pytest.mark.parametrize("machine", [X86, ARM])
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("shmget", (), errno.ENOSYS), ("shmat", (), errno.ENOSYS), ("semop", (), errno.ENOSYS),
        ("msgrcv", (), errno.ENOSYS), ("mq_open", (), errno.ENOSYS),
        ("prlimit64", (0, 7), ALLOW), ("prlimit64", (4711, 7), EPERM),
        ("socket", (1, 1), ALLOW), ("socket", (1, 0o2000001), ALLOW), ("socket", (1, 2), EPERM),
        ("socket", (2, 1), EPERM), ("socketpair", (1, 1), ALLOW), ("socketpair", (1, 2), EPERM),
        ("socketpair", (2, 1), EPERM), ("read", (), ALLOW), ("unshare", (0x10000000,), EPERM),
    ],
)  # fmt: skip
def test_without_namespaces_others_and_their_ipc_are_left_alone(name, arguments, expected, machine):
    assert shared(SHARED[name][machine == ARM], *arguments, machine=machine) == expected


@pytest.mark.parametrize("name", ["shmget", "mq_open"])
def test_in_namespaces_of_its_own_ipc_is_allowed(name):
    assert verdict(SHARED[name][0]) == ALLOW
