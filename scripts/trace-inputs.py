"""Makes the inputs of the file traces: a source tree, documents, a database, a scene. From a seed and nothing else.

    python3 trace-inputs.py FOLDER SEED

Used by scripts/record-traces.sh. Everything is drawn from one generator per part, so a part does not depend on the
others, and the same seed gives the same bytes on every machine (Python's random.Random is specified to).
"""

import math
import random
import sqlite3
import struct
import sys
import zlib
from pathlib import Path

# Translation units of the source tree, and headers that each includes a few of.
UNITS, HEADERS = 900, 240
# Documents; their lengths are drawn from a lognormal distribution as those of /usr/share/doc are.
DOCUMENTS = 1800
# Orders of the database with indexes, about TPC-H at scale factor 0.08; the one that is scanned has a third of its rows.
ORDERS = 120_000
# Frames of the scene and bytes of each on average.
FRAMES, FRAME_BYTES = 90, 800_000

WORDS = """engine harbour quiet river window stone engines letter morning of the and under across market engine lamp
winter garden bridge signal paper measure copper valley thread silver ladder anchor mirror candle orchard compass
forest lantern meadow pebble ribbon saddle timber velvet willow bottle castle feather hammer island jacket kettle""".split()


def source_tree(folder: Path, rng: random.Random) -> None:
    """C that compiles and links: every unit includes some headers, defines functions and calls those of others."""
    (folder / "include").mkdir(parents=True)
    (folder / "src").mkdir()
    for number in range(HEADERS):
        lines = [f"#ifndef H{number:03}\n#define H{number:03}\n#include <stddef.h>"]
        lines += [f'#include "h{other:03}.h"' for other in sorted(rng.sample(range(number), min(number, 3)))]
        for field in range(rng.randint(20, 120)):
            lines.append(f"/* {' '.join(rng.choices(WORDS, k=12))} */")
            lines.append(f"struct s{number:03}_{field} {{ long value_{number:04}; int step_{field:04}; char name[{rng.randint(4, 90)}]; }};")
            lines.append(f"static inline long get_{number:03}_{field}(const struct s{number:03}_{field} *s) {{ return s->value_{number:04} + s->step_{field:04}; }}")
        (folder / "include" / f"h{number:03}.h").write_text("\n".join([*lines, "#endif", ""]))
    for number in range(UNITS):
        used = sorted(rng.sample(range(HEADERS), rng.randint(3, 9)))
        lines = [f'#include "h{header:03}.h"' for header in used]
        callee = rng.randrange(number) if number else None
        if callee is not None:
            lines.append(f"long unit_{callee:04}(long);")
        lines.append(f"static const long table_{number:04}[] = {{ {', '.join(str(rng.randrange(10**6)) for _ in range(rng.randint(50, 900)))} }};")
        for step in range(rng.randint(15, 90)):
            header = rng.choice(used)
            lines.append(f"/* {' '.join(rng.choices(WORDS, k=25))} */")
            lines.append(f"static long f_{number:04}_{step}(long x) {{ struct s{header:03}_0 s = {{ x, {step}, {{0}} }}; return get_{header:03}_0(&s) ^ table_{number:04}[(size_t)x % 50]; }}")
        calls = " + ".join(f"f_{number:04}_{step}(x)" for step in range(15))
        more = f" + unit_{callee:04}(x - 1)" if callee is not None else ""
        lines.append(f"long unit_{number:04}(long x) {{ return x <= 0 ? 0 : {calls}{more}; }}")
        (folder / "src" / f"u{number:04}.c").write_text("\n".join([*lines, ""]))
    (folder / "src" / "main.c").write_text("long unit_0000(long);\nint main(void) { return (int)(unit_0000(3) & 1); }\n")
    (folder / "Makefile").write_text(
        "UNITS ?= 60\nBUILD ?= build\n"
        "names := $(shell seq -f '%04g' 0 $$(($(UNITS) - 1)))\n"
        "objects := $(foreach n,$(names),$(BUILD)/u$(n).o) $(BUILD)/main.o\n"
        "$(BUILD)/program: $(objects)\n\tgcc -o $@ $(objects)\n"
        "$(BUILD)/%.o: src/%.c\n\t@mkdir -p $(BUILD)\n\tgcc -g -O1 -w -Iinclude -c -o $@ $<\n"
    )
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.[ch]"))
    (folder / "files.txt").write_text("\n".join([*files, ""]))


def documents(folder: Path, rng: random.Random) -> None:
    """Prose in folders of unequal size."""
    for number in range(DOCUMENTS):
        place = folder / f"part{int(40 * rng.random() ** 2):02}"
        place.mkdir(parents=True, exist_ok=True)
        length = min(int(math.exp(rng.gauss(9.2, 1.4))), 2_000_000)
        text, size = [], 0
        while size < length:
            line = " ".join(rng.choices(WORDS, k=rng.randint(6, 14)))
            text.append(line)
            size += len(line) + 1
        (place / f"doc{number:05}.txt").write_text("\n".join([*text, ""]))


def comment(rng: random.Random, low: int, high: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(low, high)))


def database(folder: Path, rng: random.Random) -> None:
    """Tables shaped as TPC-H's. Line items are stored in no order that a key follows, so an index leads to random pages."""
    tables = """
        CREATE TABLE customer(c_custkey INTEGER PRIMARY KEY, c_name TEXT, c_nationkey INT, c_acctbal REAL, c_mktsegment TEXT, c_comment TEXT);
        CREATE TABLE part(p_partkey INTEGER PRIMARY KEY, p_name TEXT, p_brand TEXT, p_size INT, p_retailprice REAL, p_comment TEXT);
        CREATE TABLE orders(o_orderkey INT, o_custkey INT, o_totalprice REAL, o_orderdate TEXT, o_orderpriority TEXT, o_comment TEXT);
        CREATE TABLE lineitem(l_orderkey INT, l_partkey INT, l_suppkey INT, l_quantity INT, l_extendedprice REAL, l_discount REAL, l_shipdate TEXT, l_returnflag TEXT, l_comment TEXT);
    """
    indexes = """
        CREATE INDEX o_key ON orders(o_orderkey); CREATE INDEX o_cust ON orders(o_custkey);
        CREATE INDEX l_order ON lineitem(l_orderkey); CREATE INDEX l_part ON lineitem(l_partkey);
    """
    customers, parts = ORDERS // 10, ORDERS // 8
    date = lambda: f"199{rng.randrange(2, 9)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
    keys = list(range(1, ORDERS + 1))
    rng.shuffle(keys)
    orders = [(key, rng.randint(1, customers), rng.random() * 4e5, date(), f"{rng.randint(1, 5)}-LEVEL", comment(rng, 6, 14)) for key in keys]
    lines = [
        (rng.randint(1, ORDERS), rng.randint(1, parts), rng.randint(1, 1000), rng.randint(1, 50), rng.random() * 9e4, rng.randrange(11) / 100, date(), rng.choice("ANR"), comment(rng, 3, 9))
        for _ in range(4 * ORDERS)
    ]
    for name, extra, share in (("tpch.db", indexes, 1), ("scan.db", "", 3)):
        base = sqlite3.connect(folder / name)
        base.executescript("PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;" + tables)
        own = random.Random(rng.random())
        base.executemany("INSERT INTO customer VALUES(?,?,?,?,?,?)", ((k, f"Customer#{k:09}", own.randrange(25), own.random() * 1e4, own.choice(WORDS).upper(), comment(own, 8, 16)) for k in range(1, customers + 1)))
        base.executemany("INSERT INTO part VALUES(?,?,?,?,?,?)", ((k, comment(own, 3, 5), f"Brand#{own.randint(11, 55)}", own.randint(1, 50), own.random() * 2000, comment(own, 2, 5)) for k in range(1, parts + 1)))
        base.executemany("INSERT INTO orders VALUES(?,?,?,?,?,?)", orders[: len(orders) // share])
        base.executemany("INSERT INTO lineitem VALUES(?,?,?,?,?,?,?,?,?)", lines[: len(lines) // share])
        base.commit()
        base.executescript(extra)
        base.close()
    # No page cache of its own and no mapping: every page that a query touches is a read.
    head = "PRAGMA cache_size=20; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;\n"
    part_query = "SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem INDEXED BY l_part WHERE l_partkey = {};\n"
    order_query = "SELECT o_orderdate, sum(l_quantity) FROM orders INDEXED BY o_cust JOIN lineitem INDEXED BY l_order ON l_orderkey = o_orderkey WHERE o_custkey = {} GROUP BY o_orderdate;\n"
    queries = [part_query.format(rng.randint(1, parts)) if i % 3 else order_query.format(rng.randint(1, customers)) for i in range(330)]
    # No index helps to find parts by size: now and then a small table is gone through, one reference in twenty. The tpc-h
    # and tpc-r traces of the RPP paper's Table 1 have 5 and 7% such references, and two thirds of them come again.
    for at in (280, 200, 120, 40):
        queries.insert(at, f"SELECT count(*), avg(p_retailprice) FROM part WHERE p_size = {rng.randint(1, 50)};\n")
    (folder / "index.sql").write_text(head + "".join(queries))
    (folder / "scan.sql").write_text(
        head
        + "SELECT l_returnflag, sum(l_quantity), sum(l_extendedprice), avg(l_discount), count(*) FROM lineitem WHERE l_shipdate <= '1998-09-02' GROUP BY l_returnflag ORDER BY 1;\n"
        + "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate BETWEEN '1994-01-01' AND '1994-12-28' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;\n"
        + "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate BETWEEN '1993-07-01' AND '1993-09-28' GROUP BY 1;\n"
        + "SELECT c_mktsegment, sum(o_totalprice) FROM orders JOIN customer ON c_custkey = o_custkey WHERE o_orderdate < '1993-03-15' GROUP BY 1;\n"
        + "SELECT p_brand, sum(l_extendedprice) FROM lineitem JOIN part ON p_partkey = l_partkey WHERE l_shipdate BETWEEN '1995-09-01' AND '1995-09-28' GROUP BY 1;\n"
    )


def scene(folder: Path, rng: random.Random) -> None:
    """Frames of a scene: meshes that a viewer loads whole, some of them in every round."""
    (folder / "scene").mkdir()
    for number in range(FRAMES):
        count = int(FRAME_BYTES * rng.uniform(0.3, 1.7)) // 12
        points = b"".join(struct.pack("<fff", *(rng.random() for _ in range(3))) for _ in range(min(count, 4000)))
        (folder / "scene" / f"frame{number:03}.mesh").write_bytes((points * (count // 4000 + 1))[: count * 12])
    (folder / "view.py").write_text(
        '''"""Shows the frames of a scene in rounds: reads each mesh in pieces and computes on it before the next."""
import os, sys, zlib
folder, rounds = sys.argv[1], int(sys.argv[2])
for _ in range(rounds):
    for name in sorted(os.listdir(folder)):
        mesh = os.open(os.path.join(folder, name), os.O_RDONLY)
        for again in range(2):  # geometry, then normals: the mesh is gone through twice
            os.lseek(mesh, 0, os.SEEK_SET)
            while piece := os.read(mesh, 32768):
                zlib.crc32(piece * 20)
        os.close(mesh)
'''
    )


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    parts = {"tree": source_tree, "documents": documents, "database": database, "scene": scene}
    for name, make in parts.items():
        rng = random.Random(zlib.crc32(name.encode()) ^ seed)
        make(folder / name if name in ("tree", "documents") else folder, rng)


if __name__ == "__main__":
    main()
