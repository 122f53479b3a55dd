#!/bin/sh
# Writes in order to RAID-5 of md, as it is and through write-back over it, in turn. Runs in the machine that scripts/arrays-vm.sh boots (`write-back`), as
# its only program: the members are /dev/vda to vde and the journal /dev/vdf, disks in slow motion that the host emulates. Medians over the rounds; `busy` is what
# the machine's two processors had to do meanwhile, since they are emulated, too.
#
#   write-back-md.sh ROUNDS SLOWER
set -eu
rounds=$1 slower=$2
cd /tmp
mdadm --create /dev/md0 --run --assume-clean --level=5 --chunk=128 --raid-devices=5 --bitmap=none /dev/vd[a-e] > /dev/null 2>&1

uptime() { cut -d' ' -f1 /proc/uptime; }
# All time of the processors, and what of it they had nothing to do.
processors() { awk '/^cpu / { print $2 + $3 + $4 + $5 + $6 + $7 + $8, $5 + $6 }' /proc/stat; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# One run: MiB/s until all was acknowledged, MiB/s until all was home, hundredths of the processors.
run() {
    way=$1 mib=$2
    shift 2
    device=/dev/md0
    if [ "$way" = back ]; then
        device=/dev/ublkb0
        # A journal of the run before, which has nothing more to say.
        dd if=/dev/zero of=/dev/vdf bs=1M count=1 conv=fsync 2> /dev/null
        forerun serve --over /dev/md0 --write 'back(dirty=64MiB,age=30s)' --journal /dev/vdf --journal-new --ublk 0 --cache 16M --scheme none \
            --member-timeout $((30 * slower)) --socket s > /dev/null 2> said &
        server=$!
        until grep -q 'is there' said; do kill -0 $server || { cat said >&2; exit 1; }; sleep 0.2; done
    fi
    sync
    before=$(processors) begun=$(uptime)
    acknowledged=$(fio --name=w --filename=$device --rw=write --direct=1 --ioengine=libaio --size="${mib}m" --end_fsync=1 --thread \
        --output-format=terse --terse-version=3 "$@" | awk -F';' '{ printf "%.3f", $48 / 1024 }')
    if [ "$way" = back ]; then
        # Its end brings everything home.
        kill $server
        wait $server || { cat said >&2; exit 1; }
    fi
    after=$(processors) ended=$(uptime)
    echo "$acknowledged $begun $ended $before $after" | awk -v mib="$mib" '{
        all = $6 - $4; idle = $7 - $5
        printf "%.3f %.3f %.0f\n", $1, mib / ($3 - $2), 100 * (all - idle) / all }'
}

echo "what                        stripe cache        md     back               home     back             busy     back"
# With what md takes by itself, and with what is recommended where much is written in order.
for row in '256:128 KiB each, 4 at once:192:--bs=128k --iodepth=4' '8192:128 KiB each, 4 at once:192:--bs=128k --iodepth=4' \
    '256:1 MiB each, 2 at once:192:--bs=1m --iodepth=2' '8192:1 MiB each, 2 at once:192:--bs=1m --iodepth=2' \
    '256:64 KiB each, 1 at once:32:--bs=64k --iodepth=1' '256:4 KiB each, 16 at once:16:--bs=4k --iodepth=16'; do
    pages=${row%%:*} rest=${row#*:}
    name=${rest%%:*} rest=${rest#*:}
    mib=${rest%%:*} words=${rest#*:}
    echo "$pages" > /sys/block/md0/md/stripe_cache_size
    rm -f md back
    for round in $(seq "$rounds"); do
        for way in md back; do
            # shellcheck disable=SC2086
            run $way "$mib" $words >> $way
        done
    done
    set --
    for column in 1 2 3; do
        for way in md back; do set -- "$@" "$(cut -d' ' -f$column $way | median)"; done
    done
    echo "$@" | awk -v name="$name" -v pages="$pages" -v slower="$slower" '{
        printf "%-27s %6d pages %9.1f %8.1f %6.2f x %9.1f %8.1f %6.2f x %5d %% %5d %%\n", name, pages, $1 * slower, $2 * slower, $2 / $1,
            $3 * slower, $4 * slower, $4 / $3, $5, $6 }'
done
