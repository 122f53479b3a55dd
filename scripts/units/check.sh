#!/bin/bash
# What scripts/units-vm.py runs in the machine that it boots: the package is installed as a user does it, its units are started, used, killed and stopped, and
# the package is purged. A line for each check, `check: ok NAME` or `check: FAILED NAME` with what was said instead; `check: over` at the end.
set -u
export LC_ALL=C
fails=0
ok() { echo "check: ok $1"; }
failed() { fails=$((fails + 1)); echo "check: FAILED $1: ${2:-}"; }
# check NAME COMMAND...: it ends with 0.
check() { local name=$1 said; shift; if said=$("$@" 2>&1); then ok "$name"; else failed "$name" "$said"; fi; }
# until_true COMMAND...: within half a minute of a slow machine's time.
until_true() { for _ in $(seq 150); do "$@" > /dev/null 2>&1 && return 0; sleep 0.2; done; return 1; }
journal() { journalctl --no-pager --quiet -o cat -u "$1"; }
journal_has() { journal "$1" | grep -qE -- "$2"; }
# says NAME UNIT PATTERN: the unit's journal comes to have a line like that.
says() { if until_true journal_has "$2" "$3"; then ok "$1"; else failed "$1" "$(journal "$2" | tail -n 8)"; fi; }
cold() { sync; echo 3 > /proc/sys/vm/drop_caches; }

check installed dpkg -i /srv/check/forerun.deb
for unit in forerun-watch.service forerun-serve@disk.socket; do
    [ "$(systemctl is-enabled $unit)" = disabled ] && ok "$unit is not enabled" || failed "$unit is not enabled" "$(systemctl is-enabled $unit)"
done
check manual test -s /usr/share/man/man1/forerun-watch.1.gz

# A server behind its socket.
mkdir /var/lib/forerun-serve
head -c 64M /dev/urandom > /var/lib/forerun-serve/disk.img
sum=$(sha256sum < /var/lib/forerun-serve/disk.img)
printf 'cache = "16MiB"\n\n[[export]]\nname = "disk"\nover = "/var/lib/forerun-serve/disk.img"\n' > /etc/forerun/disk.toml
uri='nbd+unix:///disk?socket=/run/forerun/disk.sock'
check "socket enabled" systemctl enable --now forerun-serve@disk.socket
[ "$(systemctl is-active forerun-serve@disk.service)" = inactive ] && ok "nobody came, nothing runs" || failed "nobody came, nothing runs"
check "the first client starts it" nbdinfo --size "$uri"
[ "$(nbdcopy "$uri" - | sha256sum)" = "$sum" ] && ok "what is read is what is there" || failed "what is read is what is there"
check "it is active" systemctl is-active forerun-serve@disk.service
head -c 64M /dev/urandom > /srv/check/new.img
check "it is written" nbdcopy --flush /srv/check/new.img "$uri"
check "it answers to ctl" forerun ctl stats --control /run/forerun-disk/control
systemctl kill -s KILL forerun-serve@disk.service
until_true sh -c '! systemctl is-active -q forerun-serve@disk.service'
[ "$(nbdcopy "$uri" - | sha256sum)" = "$(sha256sum < /srv/check/new.img)" ] && ok "after SIGKILL the next client finds what was written" ||
    failed "after SIGKILL the next client finds what was written" "$(journal forerun-serve@disk.service | tail -n 5)"
names_export() { journalctl --no-pager --quiet -o cat FORERUN_EXPORT=disk | grep -q .; }
check "journal has the export's name" until_true names_export
check "it ends in time" timeout 25 systemctl stop forerun-serve@disk.socket forerun-serve@disk.service
[ "$(systemctl show -p Result --value forerun-serve@disk.service)" = success ] && ok "it ended well" ||
    failed "it ended well" "$(systemctl status --no-pager forerun-serve@disk.service)"

# All programs, watched.
before=$(cat /sys/block/nvme0n1/queue/read_ahead_kb)
check "watch starts" systemctl start forerun-watch
says "watch says that it does" forerun-watch '^forerun: watching'
head -c 48M /dev/zero > /srv/check/stride
cold
python3 - << 'PY'
import os, time
f = os.open("/srv/check/stride", os.O_RDONLY)
for at in range(0, 48 << 20, 98304):
    os.pread(f, 16384, at)
    time.sleep(0.01)
PY
says "a stride is read ahead of" forerun-watch 'pid [0-9]+ +python3 .*: read ahead of'
mkdir /srv/check/many
for n in $(seq 400); do head -c 16384 /dev/zero > /srv/check/many/$n; done
printf '#!/bin/sh\ncat /srv/check/many/* > /dev/null\n' > /usr/local/bin/nightly
chmod +x /usr/local/bin/nightly
cold
reads="cat /srv/check/many/1 /srv/check/many/2 /srv/check/stride"
check "a command is recorded beside it" sh -c "forerun watch -- $reads > /dev/null"
cold
$reads > /dev/null
says "a known program is read ahead of" forerun-watch 'pid [0-9]+ +cat +(read ahead of|held out)'
check "top sees it" forerun top --once --json /run/forerun-watch/page.sock
first=$(systemctl show -p MainPID --value forerun-watch)
systemctl kill -s KILL forerun-watch
is_another() { [ "$(systemctl show -p MainPID --value forerun-watch)" -gt 0 ] && [ "$(systemctl show -p MainPID --value forerun-watch)" != "$first" ]; }
check "after SIGKILL it is started again" until_true is_another
check "it is told of a unit" sh -c 'mkdir -p /etc/systemd/system/forerun-watch.service.d /etc/systemd/system && printf "[Service]\nExecStart=\nExecStart=/usr/bin/forerun watch --http /run/forerun-watch/page.sock --unit nightly\n" > /etc/systemd/system/forerun-watch.service.d/unit.conf && printf "[Service]\nType=oneshot\nExecStart=/usr/local/bin/nightly\n" > /etc/systemd/system/nightly.service && systemctl daemon-reload && systemctl restart forerun-watch'
for _ in 1 2; do
    until_true journal_has forerun-watch 'watching'
    sleep 3
    cold
    systemctl start nightly
    sleep 5
done
says "a unit is recorded" forerun-watch 'nightly.* recorded'
says "and read ahead of at its second start" forerun-watch 'nightly.* (read ahead of|held out)'
check "watch ends in time" timeout 25 systemctl stop forerun-watch
[ "$(systemctl show -p Result --value forerun-watch)" = success ] && ok "watch ended well" || failed "watch ended well" "$(systemctl status --no-pager forerun-watch)"
[ "$(cat /sys/block/nvme0n1/queue/read_ahead_kb)" = "$before" ] && ok "the device's window is as it was" || failed "the device's window is as it was"
if journal forerun-watch | grep -iE 'cannot|not permitted|denied|panicked'; then failed "nothing is refused by the unit's rights"; else ok "nothing is refused by the unit's rights"; fi

check purged dpkg -P forerun
[ ! -e /lib/systemd/system/forerun-watch.service ] && [ ! -e /etc/forerun/forerun.toml ] && ok "nothing of the package stays" || failed "nothing of the package stays"
echo "check: over, $fails failed"
