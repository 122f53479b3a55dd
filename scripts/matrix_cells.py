"""Two fixed sets of cells of the matrix: one on which changes are judged while they are made, and one that is held out.

The sets share no workload parameters, no seed, no array, no share of memory and few devices or traces, so that a constant which
fits the first set alone is found out by the second. What was looked at when is in DECISIONS.md.
"""

# The usual workloads of the matrix and shipped traces: input, array, device, share, mode, state.
DEVELOPMENT = """
forward-1 raid5:5x128KiB cheetah-15k4 1/8 closed cold
forward-1 single intel-510 1/8 closed cold
forward-4 raid0:4x128KiB wd-7200 1/8 closed cold
forward-4 single nvme 1/8 closed cold
forward-4 single gp3 1/8 closed cold
forward-16 single hdd-20tb 1/8 closed cold
forward-16 raid5:5x128KiB cheetah-15k4 1/8 closed cold
forward-16 raid5:5x128KiB hdd-20tb 1/8 closed cold
forward-16 single intel-510 1/16 closed cold
reverse single cheetah-15k4 1/8 closed cold
reverse raid5:5x128KiB nvme 1/8 closed cold
stride-3 raid5:5x128KiB cheetah-15k4 1/8 closed cold
stride-3 single wd-7200 1/8 closed cold
stride-wide raid5:5x128KiB wd-7200 1/8 closed cold
zipf raid5:5x128KiB cheetah-15k4 1/2 closed cold
zipf raid5:5x128KiB cheetah-15k4 1/8 closed warm
zipf single intel-510 1/8 closed cold
zipf single hdd-20tb 1/2 closed cold
random raid5:5x128KiB cheetah-15k4 1/2 closed cold
random single gp3 1/8 closed cold
dbench raid5:5x128KiB wd-7200 1/8 closed cold
tpch-q4 single cheetah-15k4 1/8 closed cold
boot single hdd-20tb 1/8 closed warm
link raid0:4x128KiB wd-7200 1/8 closed cold
tree single wd-7200 1/8 closed cold
cscope single wd-7200 1/8 closed cold
media raid5:5x128KiB cheetah-15k4 1/8 closed cold
media-paced single hdd-20tb 1/8 paced cold
mixed raid5:5x128KiB cheetah-15k4 1/8 closed cold
writes raid5:5x128KiB cheetah-15k4 1/8 closed cold
demo raid5:5x128KiB cheetah-15k4 1/8 closed cold
gcc single wd-7200 1/8 closed cold
tpch-index single gp3 1/2 closed warm
tpch-index raid5:5x128KiB cheetah-15k4 1/8 closed warm
arc_P6 single cheetah-15k4 1/8 closed cold
arc_OLTP raid5:5x128KiB wd-7200 1/8 closed cold
lirs_cs single hdd-20tb 1/2 closed cold
pcmark_a single nvme 1/8 closed cold
"""

# Seeds are those of the requests: `trace synth --seed` of each of these.
HELD_OUT_SEED = 20_261
HELD_OUT_WORKLOADS = {
    "forward-2h": "forward:processes=2,size=192MiB,block=32KiB",
    "forward-11h": "forward:processes=11,size=220MiB,block=8KiB",
    "forward-40h": "forward:processes=40,size=400MiB,block=16KiB",
    "reverse-5h": "reverse:processes=5,size=160MiB,block=16KiB",
    "stride-5h": "stride:processes=3,size=96MiB,block=8KiB,stride=5",
    "zipf-h": "zipf:processes=12,size=384MiB,requests=90000,theta=0.95,block=4KiB",
    "zipf-flat-h": "zipf:processes=5,size=192MiB,requests=40000,theta=0.5,block=8KiB",
    "random-h": "random:processes=9,size=1GiB,requests=30000,block=8KiB",
    "dbench-h": "standin-dbench:clients=40,sessions=50",
    "tpch-q12-h": "standin-tpch:query=q12",
    "boot-h": "standin-boot:runs=800,size=3GB",
    "tree-h": "files:files=9000,processes=5,order=shuffled",
    "glimpse-h": "standin-glimpse:files=3000",
    "media-h": "streams:streams=23,length=8MiB,title=16MiB,block=32KiB",
    "mixed-h": "forward:processes=5,size=160MiB,block=4KiB and zipf:processes=3,size=256MiB,requests=9000,theta=0.8,block=8KiB",
}
HELD_OUT = """
forward-2h single sata-qlc 1/12 closed cold
forward-2h raid0:3x64KiB cheetah-15k5 1/5 closed cold
forward-11h single cheetah-15k5 1/12 closed cold
forward-11h raid5:7x64KiB wd-7200 1/5 closed cold
forward-40h single hdd-20tb 1/5 closed cold
forward-40h raid5:7x64KiB nvme-pcie4 1/12 closed cold
reverse-5h single wd-7200 1/5 closed cold
reverse-5h raid5:7x64KiB vertex2 1/12 closed cold
stride-5h raid5:7x64KiB hdd-20tb 1/5 closed cold
stride-5h single io2 1/12 closed cold
zipf-h raid5:7x64KiB cheetah-15k5 1/5 closed cold
zipf-h single vertex2 1/5 closed warm
zipf-flat-h raid0:3x64KiB wd-7200 1/5 closed cold
zipf-flat-h single hdd-20tb 1/5 closed cold
random-h raid5:7x64KiB hdd-20tb 1/5 closed cold
random-h single sata-qlc 1/12 closed cold
dbench-h raid5:7x64KiB cheetah-15k5 1/12 closed cold
tpch-q12-h single wd-7200 1/12 closed cold
boot-h single hdd-20tb 1/5 closed cold
tree-h raid0:3x64KiB cheetah-15k5 1/5 closed cold
tree-h single vertex2 1/12 closed cold
glimpse-h single wd-7200 1/5 closed cold
media-h single cheetah-15k5 1/5 closed cold
media-h raid5:7x64KiB hdd-20tb 1/12 closed cold
mixed-h raid5:7x64KiB wd-7200 1/5 closed cold
ripgrep single wd-7200 1/5 closed cold
view raid5:7x64KiB cheetah-15k5 1/12 closed cold
tpch-scan single hdd-20tb 1/5 closed cold
mix-random raid0:3x64KiB cheetah-15k5 1/5 closed cold
arc_P3 single wd-7200 1/5 closed cold
lirs_multi2 raid5:7x64KiB wd-7200 1/5 closed warm
lirs_gli single cheetah-15k5 1/5 closed cold
cloudphysics_h1 single hdd-20tb 1/5 closed cold
wsrch_0_30s raid5:7x64KiB cheetah-15k5 1/12 closed cold
tpcc_burst single vertex2 1/5 closed cold
"""
