#!/usr/bin/env python3
"""Writes the binary samples of this folder, field by field as the public specifications lay them out.

blktrace: Linux include/uapi/linux/blktrace_api.h, struct blk_io_trace (48 bytes), version 7.
vscsi:    libCacheSim traceReader/customizedReader/vscsi.h, versions 1 (32 bytes) and 2 (40 bytes).
oracle:   libCacheSim oracleGeneral, 24 packed bytes: u32 time, u64 id, u32 size, i64 next.
parquet:  the schema of crates/trace/src/formats/columnar.rs, written by pyarrow where it is installed,
          so that the reader is not only tested on what our own writer writes.
"""
import struct
from pathlib import Path

HERE = Path(__file__).parent
READ, WRITE, QUEUE, ISSUE, COMPLETE, FS, NOTIFY, DISCARD = 1, 2, 1 << 4, 1 << 6, 1 << 7, 1 << 8, 1 << 10, 1 << 13


def blk(order, seq, time, sector, size, what, categories, pid, device, cpu, payload=b"", magic=0x65617407):
    head = struct.pack(
        order + "IIQQIIIIIHH", magic, seq, time, sector, size, categories << 16 | what, pid,
        device[0] << 20 | device[1], cpu, 0, len(payload))
    assert len(head) == 48
    return head + payload


def blktrace(order):
    sda, sdb = (8, 0), (8, 16)
    cpu0 = [
        blk(order, 0, 900, 0, 0, 0, NOTIFY, 697, (0, 0), 0, b"kjournald\0\0\0\0\0\0\0"),
        blk(order, 0, 950, 0, 0, 1, NOTIFY, 0, (0, 0), 0, struct.pack(order + "II", 1, 2)),
        blk(order, 1, 1_000, 223490, 4096, 1, WRITE | QUEUE | FS, 697, sda, 0),
        blk(order, 2, 3_000, 223498, 8192, 1, READ | QUEUE | FS, 12, sdb, 0),
        blk(order, 3, 3_500, 223490, 4096, 7, WRITE | ISSUE | FS, 697, sda, 0),
        blk(order, 4, 9_000, 223490, 4096, 8, WRITE | COMPLETE | FS, 0, sda, 0),
    ]
    cpu1 = [
        blk(order, 1, 2_000, 8, 512, 1, READ | QUEUE | FS, 12, sda, 1),
        blk(order, 2, 2_500, 64, 65536, 1, WRITE | DISCARD | QUEUE | FS, 12, sda, 1),
        blk(order, 3, 2_600, 0, 0, 1, WRITE | QUEUE | FS, 12, sda, 1),
        # A control group's number stands before the payload where bit 8 of the low half is set.
        blk(order, 4, 4_000, 16, 512, 1 | 1 << 8, READ | QUEUE | FS, 12, sda, 1, struct.pack(order + "Q", 5)),
    ]
    return b"".join(cpu0), b"".join(cpu1)


def main():
    little, big = blktrace("<"), blktrace(">")
    (HERE / "two.blktrace.0").write_bytes(little[0])
    (HERE / "two.blktrace.1").write_bytes(little[1])
    (HERE / "big-endian.blktrace").write_bytes(big[0] + big[1])
    v1 = [(1, 512, 1, 0x2A, 0x100, 42932745, 5_633_898_368_802), (2, 4096, 1, 0x35, 0x100, 0, 5_633_898_400_000),
          (3, 65536, 16, 0x28, 0x100, 1 << 33, 5_633_898_611_441)]
    (HERE / "v1.vscsi").write_bytes(b"".join(struct.pack("<IIIHHQQ", *row) for row in v1))
    v2 = [(0x28, 0x200, 1, 8192, 2, 16, 1_000, 77), (0x8A, 0x200, 2, 512, 1, 7, 1_500, 99)]
    (HERE / "v2.vscsi").write_bytes(b"".join(struct.pack("<HHIIIQQQ", *row) for row in v2))
    og = [(0, 7, 4096, 3), (0, 9, 512, -1), (2, 7, 4096, -1), (5, 1 << 40, 65536, (1 << 63) - 1)]
    (HERE / "small.oracleGeneral").write_bytes(b"".join(struct.pack("<IQIq", *row) for row in og))
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    table = pa.table({
        "time_ns": pa.array([0, 1_500, None], pa.uint64()), "process": pa.array(["fio/7", None, "cp/8"]),
        "device": pa.array(["8,0", "8,0", None]), "file": pa.array([None, None, "/a"]),
        "offset": pa.array([512, 1 << 40, 0], pa.uint64()), "bytes": pa.array([4096, 512, 0], pa.uint64()),
        "op": pa.array(["R", "W", "R"]),
    }).replace_schema_metadata({"forerun.schema": "1"})
    schema = pa.schema([pa.field(f.name, f.type, f.name not in ("offset", "bytes", "op")) for f in table.schema],
                       metadata=table.schema.metadata)
    pq.write_table(table.cast(schema), HERE / "pyarrow.parquet", compression="zstd")


main()
