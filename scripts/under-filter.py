#!/usr/bin/env python3
"""Runs a command under the system calls that a unit of systemd allows, without systemd: what its SystemCallFilter= forbids ends the command.

    scripts/under-filter.py UNIT COMMAND...

A unit that is read by nobody but a scoring tool may forbid what its program needs. With SystemCallErrorNumber= the call has that error, as
there. Wants `systemd-analyze syscall-filter`, which knows the sets (@system-service), and libseccomp, which systemd has with it.
"""
import ctypes
import errno
import os
import subprocess
import sys

KILL, ALLOW, ERROR = 0x8000_0000, 0x7FFF_0000, 0x0005_0000


def members(name):
    """The calls of a set, or the call itself."""
    if not name.startswith("@"):
        return {name}
    done = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True, check=True)
    lines = (line.strip() for line in done.stdout.splitlines()[1:])
    return set().union(*(members(line) for line in lines if line and not line.startswith("#")))


def allowed(unit):
    """What is allowed, and what the kernel does with the rest."""
    calls, action = set(), KILL
    for line in open(unit):
        key, _, value = line.strip().partition("=")
        if key == "SystemCallErrorNumber":
            action = ERROR | getattr(errno, value)
        if key != "SystemCallFilter":
            continue
        words = set().union(*(members(word) for word in value.lstrip("~").split()))
        calls = calls - words if value.startswith("~") else calls | words
    # systemd lets these through whatever a unit says.
    return calls | members("@default") | {"execve"}, action


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    calls, action = allowed(sys.argv[1])
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    rules = library.seccomp_init(action)
    for call in sorted(calls):
        number = library.seccomp_syscall_resolve_name(call.encode())
        # Not of this architecture.
        if number >= 0:
            assert library.seccomp_rule_add(rules, ALLOW, number, 0) == 0, call
    assert library.seccomp_load(rules) == 0, "the kernel takes no filter"
    os.execvp(sys.argv[2], sys.argv[2:])


main()
