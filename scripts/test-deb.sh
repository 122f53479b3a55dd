#!/usr/bin/env bash
# The Debian package from outside: lintian, the exposure of its units, and a root of its own in which it is installed, run and purged.
# Usage: scripts/test-deb.sh [BINARY] (the release binary unless said); SAME_AS=FOLDER of packages that must be the same bytes. Root; installs lintian and mmdebstrap where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
EXPOSURE_MAX=20 # tenths, of systemd-analyze security
BYTES_MAX=20000000 # of the command, as installed

[ "$(id -u)" -eq 0 ] || { echo "skipped: test-deb needs root, to make a root of its own"; exit 0; }
missing=()
command -v lintian >/dev/null || missing+=(lintian)
command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
command -v dpkg-shlibdeps >/dev/null || missing+=(dpkg-dev)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
OUT=$work scripts/deb.sh "$@"
package=$(echo "$work"/forerun_*.deb)
symbols=$(echo "$work"/forerun-dbgsym_*.deb)

if [ -n "${SAME_AS:-}" ]; then
    echo "== packed twice"
    for made in "$package" "$symbols"; do cmp "$made" "$SAME_AS/$(basename "$made")"; done
fi

echo "== lintian"
# The address is of whoever publishes the package (MAINTAINER=), and what groff says of manual pages is of words longer than a line.
lintian --fail-on error,warning --allow-root --suppress-tags \
    bogus-mail-host,bogus-mail-host-in-debian-changelog,groff-message,initial-upload-closes-no-bugs "$package" "$symbols"

echo "== units"
dpkg-deb -x "$package" "$work/tree"
units=$work/tree/lib/systemd/system
cp "$units/forerun-serve@.service" "$work/forerun-serve@x.service"
exposure=$(systemd-analyze security --offline=true --no-pager "$work/forerun-serve@x.service" | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
echo "exposure of forerun-serve@.service: $exposure"
[ "$(echo "$exposure" | tr -d .)" -le "$EXPOSURE_MAX" ]
! grep -l '^WantedBy' "$units"/forerun-serve@.service || { echo "the service is enabled by its socket alone"; exit 1; }
# It writes the kernel's window and looks into other programs, so it may have more (the test of the binary holds it below 3.0).
systemd-analyze security --offline=true --no-pager --threshold=30 "$units/forerun-watch.service" | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/exposure of forerun-watch.service: \1/p'
# Under the system calls that the units allow: a file that is served, read through the ring and by threads, and a command that is watched.
truncate -s 8M "$work/disk.img"
for how in "" "--io threads" "--read-only"; do
    # shellcheck disable=SC2086  # options are words
    scripts/under-filter.py "$units/forerun-serve@.service" "$work/tree/usr/bin/forerun" --quiet serve --over "$work/disk.img" \
        --socket "$work/s" --control "$work/c" $how --run 'command -v nbdcopy >/dev/null || exit 0; nbdcopy "$uri" null:'
done
scripts/under-filter.py "$units/forerun-watch.service" "$work/tree/usr/bin/forerun" --quiet watch --state "$work/state" -- cat "$work/disk.img" >/dev/null
echo "served and watched under the filters of system calls"

echo "== size"
bytes=$(stat -c %s "$work/tree/usr/bin/forerun")
echo "command: $bytes bytes"
[ -n "${ANY_SIZE:-}" ] || [ "$bytes" -le "$BYTES_MAX" ]

echo "== debug information"
dpkg-deb -x "$symbols" "$work/symbols"
told() { readelf -n "$1" 2>/dev/null | sed -n 's/.*Build ID: //p'; }
id=$(told "$work/tree/usr/bin/forerun")
file=$work/symbols/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
[ "$(told "$file")" = "$id" ]
readelf -S --wide "$file" 2>/dev/null | grep -q '\.debug_line'
if readelf -S --wide "$work/tree/usr/bin/forerun" | grep -E '\.debug_(info|line|str)'; then exit 1; fi
echo "of $id: $(stat -c %s "$file") bytes, in a package of its own"

echo "== installed, run, purged"
# Debian's smallest, without systemd: nothing may be left running, and nothing enabled.
chmod 755 "$work"
mmdebstrap --quiet --variant=essential bookworm "$work/base"
cp "$package" "$work/base/forerun.deb"
inside() { chroot "$work/base" "$@"; }
inside dpkg -i /forerun.deb
inside forerun --version
inside forerun compare 'forward:size=4MiB' --scheme asp --device wd-7200 --json >"$work/run.json"
python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["runs"]) == 5' "$work/run.json"
inside sh -c 'truncate -s 8M /disk.img && forerun serve --over /disk.img --cache 16MiB --run "test -S \$unixsocket"'
inside sh -c 'test -z "$(find /etc/systemd -name "*forerun*")"'
inside test -f /lib/systemd/system/forerun-watch.service
inside sh -c 'zcat /usr/share/man/man1/forerun.1.gz | grep -q forerun'
inside dpkg --purge forerun
left=$(inside sh -c 'find / -xdev -path /proc -prune -o -name "*forerun*" -print | grep -v -e /forerun.deb -e /var/log/ || true')
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "1 passed, 0 failed"
