#!/usr/bin/env python3
"""Four readers, each in order and 4 KiB at a time, of one emulated disk behind `forerun serve`: how fast, with and without reading ahead.

`forerun` must be on PATH. The disk is emulated in real time with the read-ahead of its own that such drives have. Standard library only.
"""
import multiprocessing
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

READERS, BLOCK, SECONDS, EACH = 4, 4096, 10, 1 << 30
DEVICE = "wd-7200"
ROWS = [("none", "nothing is read ahead"), ("auto", "the default: chosen while it runs"), ("streams", "long turns for each reader")]


def exactly(connection, count):
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise EOFError("the server hung up")
        parts += part
    return parts


def attach(path):
    """A connection to the default export, past the handshake of fixed newstyle."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    exactly(connection, 18)
    connection.sendall(struct.pack(">I", 3) + struct.pack(">8sII", b"IHAVEOPT", 1, 0))
    exactly(connection, 10)  # size and flags, without zeroes behind them
    return connection


def read(path, number, counted):
    """Reads on until the time is up; the first second is not counted."""
    connection = attach(path)
    begin, place, counting = time.monotonic(), number * EACH, 0
    while (passed := time.monotonic() - begin) < SECONDS + 1:
        connection.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, place, place, BLOCK))
        error = struct.unpack(">IIQ", exactly(connection, 16))[1]
        if error:
            sys.exit(f"reading failed with {error}")
        exactly(connection, BLOCK)
        place += BLOCK
        counting += passed >= 1
    counted.put(counting)


def client():
    path, counted = os.environ["SOCKET"], multiprocessing.Queue()
    readers = [multiprocessing.Process(target=read, args=(path, number, counted)) for number in range(READERS)]
    for reader in readers:
        reader.start()
    total = sum(counted.get() for _ in readers)
    for reader in readers:
        reader.join()
    print(f"{total * BLOCK / SECONDS / 2**20:.1f}")


def main():
    print(f"{READERS} readers, each in order, {BLOCK // 1024} KiB at a time, of one emulated {DEVICE} for {SECONDS} s, over NBD")
    print(f"load average at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    with tempfile.TemporaryDirectory() as folder:
        disk, path = os.path.join(folder, "disk.img"), os.path.join(folder, "s")
        with open(disk, "wb") as file:
            file.truncate(READERS * EACH)
        slowest = None
        for scheme, what in ROWS:
            command = ["forerun", "--quiet", "serve", "--over", f"emulate({DEVICE}):{disk}", "--read-only", "--cache", "256M"]
            command += ["--scheme", scheme, "--socket", path, "--run", f"{sys.executable} {os.path.abspath(__file__)} client"]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "SOCKET": path})
            rate = float(done.stdout.split()[0])
            slowest = slowest or rate
            print(f"--scheme {scheme:7} {rate:6.1f} MiB/s {rate / slowest:6.1f} ×   {what}")


client() if sys.argv[1:] == ["client"] else main()
