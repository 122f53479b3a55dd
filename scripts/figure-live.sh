#!/usr/bin/env bash
# Draws docs/figures/live-light.png and live-dark.png: the live page of four emulated disks, while three programs read
# forwards and then four read at random. Needs the release binary on PATH, fio, and chromium. Takes a minute; the
# figures on it are those of the machine that drew it.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in forerun fio chromium; do
    command -v "$program" >/dev/null || { echo "figure-live: $program is not there" >&2; exit 1; }
done
export out=$PWD/docs/figures
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
members=()
for n in 0 1 2 3; do
    truncate -s 1G "m$n.img"
    members+=("emulate(cheetah-15k4):m$n.img")
done

# Runs with $uri and $page set. A browser that has no profile yet is as light or dark as it is told.
cat > run.sh <<'RUN'
read_with() { fio --name=t --ioengine=nbd --uri="$uri" --thread --time_based --group_reporting "$@" >/dev/null; }
shoot() {
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="profile-$1" --virtual-time-budget=4000 \
        --window-size=1240,1500 --blink-settings=preferredColorScheme="$2" --screenshot="$out/live-$1.png" "$page" 2>/dev/null
}
read_with --rw=read --bs=16k --numjobs=3 --offset_increment=1g --size=300m --runtime=16
read_with --rw=randread --bs=16k --numjobs=4 --size=4g --runtime=14
read_with --rw=read --bs=16k --numjobs=3 --offset_increment=1g --size=900m --rate=12m --runtime=20 &
sleep 10
shoot light 1
shoot dark 0
wait
RUN
forerun --quiet serve --stripe 128K "${members[@]}" --scheme asp+msp --cache 128M --http 127.0.0.1:0 --run 'bash run.sh'
ls -l "$out"/live-*.png
