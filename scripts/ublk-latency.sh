#!/bin/sh
# Reads through one server over ublk and over the kernel's nbd client, in turn: 4 KiB at random of what is in the cache, and in order of what
# is read ahead. Runs in the machine that scripts/arrays-vm.sh boots (`ublk-latency ROUNDS`), as its only program. Medians over the rounds.
#
#   ublk-latency.sh ROUNDS SECONDS
set -eu
rounds=$1 seconds=$2
cd /tmp
dd if=/dev/urandom of=disk.img bs=1M count=192 2> /dev/null
forerun serve --over disk.img --ublk 0 --cache 128M --scheme asp+msp --socket s --control off --direct off > /dev/null 2> said &
server=$!
until grep -q 'is there' said; do :; done
nbd-client -unix s /dev/nbd0 > /dev/null 2>&1

# One run: bandwidth in MiB/s, requests a second, and latencies in microseconds: mean, median and 99th percentile.
run() {
    device=$1
    shift
    echo 3 > /proc/sys/vm/drop_caches
    fio --name=r --filename="$device" --direct=1 --ioengine=libaio --time_based --runtime="$seconds" --thread --readonly \
        --output-format=terse --terse-version=3 "$@" | awk -F';' '{
            for (i = 18; i < 38; i++) { split($i, p, "%="); if (p[1] == "50.000000") half = p[2]; if (p[1] == "99.000000") most = p[2] }
            printf "%.1f %d %.0f %d %d\n", $7 / 1024, $8, $40, half, most }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# The part of 64 MiB that hits read is in the cache from here on.
dd if=/dev/ublkb0 of=/dev/null bs=1M count=64 2> /dev/null
echo 'what                        through       MiB/s   reads/s   mean us   p50 us   p99 us'
for row in '4 KiB, cached, depth 1:--rw=randread --bs=4k --iodepth=1 --size=64m' '4 KiB, cached, depth 32:--rw=randread --bs=4k --iodepth=32 --size=64m' \
    '128 KiB in order, depth 4:--rw=read --bs=128k --iodepth=4 --size=192m'; do
    name=${row%%:*} words=${row#*:}
    rm -f ublkb0 nbd0
    for round in $(seq "$rounds"); do
        for device in ublkb0 nbd0; do
            # shellcheck disable=SC2086
            run "/dev/$device" $words >> "$device"
        done
    done
    for device in ublkb0 nbd0; do
        set -- $(for column in 1 2 3 4 5; do cut -d' ' -f$column "$device" | median; done)
        printf '%-27s %-10s %8s %9s %9s %8s %8s\n' "$name" "${device%0}" "$@" | sed 's/ublkb/ublk /'
    done
    # What is read in order pushes the cached part out: it comes last.
done
nbd-client -d /dev/nbd0 > /dev/null
kill $server
wait $server
