"""The works of scripts/bench-watch-table.py: what they need of a file system, and their commands.

Those of scripts/bench-watch.py (a search in a repository, imports, a compiler, an index walk), PostgreSQL with queries like those of TPC-H, a model that is mapped
in a cgroup with room for half of it, work like that of flashy's slides (PostMark, a large file, a web search, and TPC-H again), and several of them at once. All of chance that is the same on every machine.
"""
import dataclasses
import importlib.util
import pathlib
import shlex

import bench_rig
from bench_rig import run

# The benchmark of second runs, whose works these are too.
_spec = importlib.util.spec_from_file_location("bench_watch", pathlib.Path(__file__).with_name("bench-watch.py"))
second = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(second)

NAMES = ["git grep (clone)", "Python imports", "rustc", "PostgreSQL index", "PostgreSQL TPC-H", "mapped model in half", "PostMark", "large file", "web search", "all at once"]
MODEL_MIB = 192
BIG_MIB = 256

# A customer table, orders and their lines, smaller than TPC-H's and of its kinds of columns.
TPCH = """create table customer as select k as c_key, (array['BUILDING','MACHINERY','FURNITURE','AUTOMOBILE','HOUSEHOLD'])[k % 5 + 1] as c_segment, repeat(md5(k::text), 3) as c_comment from generate_series(1, 15000) k;
create table orders as select k as o_key, (k::bigint * 7919 % 15000 + 1)::int as o_customer, date '1992-01-01' + (k::bigint * 104729 % 2400)::int as o_date, repeat(md5(k::text), 2) as o_comment from generate_series(1, 150000) k;
create table lineitem as select (k::bigint * 15485863 % 150000 + 1)::int as l_order, (k * 31 % 20000)::int as l_part, (k % 50 + 1)::numeric as l_quantity, (k % 90000 + 900)::numeric as l_price, (k % 11)::numeric / 100 as l_discount, date '1992-01-01' + (k::bigint * 32452843 % 2500)::int as l_ship, md5(k::text) as l_comment from generate_series(1, 600000) k;
create index on orders (o_customer);
create index on lineitem (l_order);
create index on customer (c_key);
vacuum (freeze, analyze);
checkpoint;
"""
# Like Q1, Q3, Q6 and one by way of both indices: a line each, as a server without a socket wants it.
TPCH_QUERIES = """select l_quantity, sum(l_price), avg(l_discount), count(*) from lineitem where l_ship <= date '1998-08-01' group by l_quantity order by l_quantity
select l_order, sum(l_price * (1 - l_discount)) as revenue, o_date from customer, orders, lineitem where c_segment = 'BUILDING' and c_key = o_customer and l_order = o_key and o_date < date '1995-03-15' and l_ship > date '1995-03-15' group by l_order, o_date order by revenue desc limit 10
select sum(l_price * l_discount) from lineitem where l_ship >= date '1994-01-01' and l_ship < date '1995-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24
select count(*), sum(l_price) from orders, lineitem where o_customer between 4000 and 4100 and l_order = o_key
"""
# Every page in its order, as a loader that maps its weights comes to them, and a part of them once more.
MAPPED = """import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(f, 0, prot=mmap.PROT_READ)
n = len(m) // 4096
for _ in range(2):
    for page in range(n):
        m[page * 4096]
    n //= 4
"""
# Small files in many folders by chance: half of the transactions read one, the others make and remove one.
POSTMARK = """import os, random, sys
at = sys.argv[1]
names = sorted(os.path.join(folder, name) for folder, _, names in os.walk(at) for name in names)
chance = random.Random(11)
own = os.path.join(at, "own")
os.makedirs(own, exist_ok=True)
for number in range(int(sys.argv[2])):
    if chance.random() < 0.5:
        with open(chance.choice(names), "rb") as f:
            f.read()
    else:
        path = os.path.join(own, str(number))
        with open(path, "wb") as f:
            f.write(b"x" * chance.randrange(500, 10000))
        os.unlink(path)
os.rmdir(own)
"""
# An index that is asked by two threads: pieces of 4 to 32 KiB at places of which few are asked for often.
SEARCH = """import os, random, sys, threading
f = os.open(sys.argv[1], os.O_RDONLY)
n = os.fstat(f).st_size // 4096
def ask(seed):
    chance = random.Random(seed)
    for _ in range(int(sys.argv[2])):
        place = int(n * chance.random() ** 3)
        os.pread(f, chance.choice([4096, 8192, 16384, 32768]), place * 1000003 % n * 4096)
threads = [threading.Thread(target=ask, args=[seed]) for seed in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@dataclasses.dataclass
class Work:
    """What is run where; `limit` is what its cgroup may have of memory, bytes, if that is limited."""

    name: str
    folder: pathlib.Path
    words: list
    limit: int = 0
    of_slides: bool = False


def make(mount, wanted):
    """Puts on a file system what the wanted works need, all of them unless some are named; the works."""
    is_wanted = lambda name: not wanted or name in wanted or "all at once" in wanted and name in ("Python imports", "PostMark", "large file", "web search")
    second.make_files(mount, 4000, BIG_MIB, lambda name: name in NAMES and is_wanted(name))
    if is_wanted("PostgreSQL TPC-H") and second.postgres():
        second.make_database(mount / "tpch", TPCH, TPCH_QUERIES)
    if is_wanted("mapped model in half"):
        bench_rig.fill(mount / "model", MODEL_MIB, seed=4)
    if is_wanted("PostMark"):
        bench_rig.make_tree(mount / "mail", 6000)
    for name, text in (("mapped.py", MAPPED), ("postmark.py", POSTMARK), ("search.py", SEARCH)):
        (mount / name).write_text(text)
    run("sync")
    every = _works(mount)
    return [work for work in every if (work.name in wanted if wanted else work.folder.exists())]


def _works(mount):
    known = {name: Work(name, folder, list(map(str, words))) for name, folder, words, _ in second.cases(mount)}
    python = lambda text, *words: ["python3", f"{mount}/{text}", *words]
    postmark, large, search = python("postmark.py", f"{mount}/mail", "6000"), python("read.py", f"{mount}/big"), python("search.py", f"{mount}/big", "3000")
    several = " & ".join(shlex.join(words) for words in (known["Python imports"].words, postmark, large, search))
    return [
        known["git grep (clone)"], known["Python imports"], known["rustc"], known["PostgreSQL index"],
        Work("PostgreSQL TPC-H", mount / "tpch", second.server_words(mount / "tpch"), of_slides=True),
        Work("mapped model in half", mount, python("mapped.py", f"{mount}/model"), limit=MODEL_MIB << 19),
        Work("PostMark", mount, postmark, of_slides=True), Work("large file", mount, large, of_slides=True), Work("web search", mount, search, of_slides=True),
        Work("all at once", mount, ["sh", "-c", f"{several} & wait"]),
    ]
