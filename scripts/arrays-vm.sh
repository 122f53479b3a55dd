#!/usr/bin/env bash
# Runs tests that want a kernel with md, the device mapper, nbd and ublk in a virtual machine, for machines whose own has none of them: a stock
# kernel of Debian with busybox, mdadm, dmsetup and what else they need, in QEMU: by KVM where that runs it, else emulated. Fails if a test fails or was skipped.
#
#   scripts/arrays-vm.sh             the tests of real arrays (crates/cli/tests/it/devices.rs)
#   scripts/arrays-vm.sh ublk N      N kills of a server under ext4 on its block device (crates/cli/tests/it/ublk.rs); prints what was counted
#   scripts/arrays-vm.sh ublk-latency N   reads over ublk beside reads over the kernel's nbd client, medians of N rounds (scripts/ublk-latency.sh)
#   scripts/arrays-vm.sh power N     N power cuts under ext4 on write-back on md (crates/cli/tests/it/power.rs); prints what was counted
#   scripts/arrays-vm.sh write-back N    writes in order over md RAID-5 beside the same through write-back, medians of N rounds (scripts/write-back-md.sh);
#                                    members and journal are disks that the host emulates SLOWER times as slow (20), so that processors do not matter
#   scripts/arrays-vm.sh watch       watch, load and manifest on that kernel (crates/cli/tests/it/kernels.rs, watching.rs, on_disks.rs); prints what works
#
# Needs a Debian system with network (it fetches the kernel and what is missing), root or sudo for that, and some 300 MB below OUT.
# Environment: OUT (out), KERNEL (the package of the kernel, or one that depends on it), BINARY (a `forerun` for `power` and `write-back`; else the tests' own, or one built for release), MINUTES (how long the
# machine may run), FORERUN_CRASH_SEED (of `power`), SLOWER (of `write-back`).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:/usr/sbin:/sbin:$PATH"
what=${1:-arrays} cuts=${2:-200} kills=${2:-20} rounds=${2:-5} slower=${SLOWER:-20}
case $what in
arrays) filter="devices::arrays devices::striped devices::a_raid" minutes=${MINUTES:-15} ;;
power) filter="power::" minutes=${MINUTES:-$((15 + cuts / 2))} ;;
ublk) filter="ublk::" minutes=${MINUTES:-$((15 + kills / 4))} ;;
ublk-latency) filter="" minutes=${MINUTES:-$((10 + 2 * rounds))} ;;
write-back) filter="" minutes=${MINUTES:-$((10 + 30 * rounds))} ;;
watch) filter="kernels:: watching::a_snapshot watching::load watching::the_second watching::nothing_is watching::a_check watching::a_command_that on_disks::what_a_command"
    minutes=${MINUTES:-15} ;;
*) echo "arrays-vm: what is $what?" >&2; exit 2 ;;
esac
out=$(realpath -m "${OUT:-out}")/arrays-vm
mkdir -p "$out"

# How long the boot may take that shows whether KVM is of use: it is over in two seconds where it is.
PROBE_SECONDS=15

say() { printf 'arrays-vm: %s\n' "$*" >&2; }

command -v apt-get >/dev/null || { say "this is no Debian system: run the tests as root on a kernel with md and dm instead"; exit 4; }
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
case $what in
arrays | power)
    need mdadm mdadm
    need dmsetup dmsetup ;;
write-back)
    need fio fio
    need mdadm mdadm ;;
ublk | ublk-latency) need fio fio ;;
esac
need cpio cpio
need modprobe kmod
need xz xz-utils
case $what in power | ublk-latency) need nbd-client nbd-client ;; esac
case $what in power | ublk | watch) need mkfs.ext4 e2fsprogs ;; esac
[ "$what" != watch ] || { need mkfs.xfs xfsprogs; need mkfs.btrfs btrfs-progs; }
if [ ${#missing[@]} -gt 0 ]; then
    sudo=(); [ "$(id -u)" -eq 0 ] || sudo=(sudo)
    say "installing ${missing[*]}"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# A metapackage names the kernel of the day.
wanted=${KERNEL:-linux-image-6.12-cloud-amd64}
apt-cache show "$wanted" > /dev/null 2>&1 || { say "no package $wanted is known: say KERNEL=PACKAGE"; exit 4; }
kernel=$(apt-cache depends "$wanted" | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
kernel=${kernel:-$wanted}
if [ ! -d "$out/$kernel" ]; then
    say "fetching $kernel"
    (cd "$out" && rm -f "$kernel"_*.deb && apt-get download -qq "$kernel" && dpkg -x "$kernel"_*.deb "$kernel.new")
    depmod -b "$out/$kernel.new" "${kernel#linux-image-}"
    mv "$out/$kernel.new" "$out/$kernel"
fi
version=${kernel#linux-image-}

if [ "$what" = write-back ]; then
    # Nothing but the program, and that as it is shipped: what it takes of the processor is in the table.
    tests="" program=${BINARY:-${CARGO_TARGET_DIR:-target}/release/forerun}
    [ -n "${BINARY:-}" ] || cargo build --locked --release --bin forerun
else
    say "building the tests"
    # Of the whole workspace, so that dependencies have the features they have in other builds and none is made again.
    tests=$(cargo test --workspace --locked --test cli --no-run --message-format=json |
        python3 -c '
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if said.get("profile", {}).get("test") and said["target"]["name"] == "cli":
        print(said["executable"])')
    program=${BINARY:-$(dirname "$(dirname "$tests")")/forerun}
fi

root="$out/root"
rm -rf "$root"
mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,modules,etc}
cp "$(command -v busybox)" "$root/bin/busybox"
[ -z "$tests" ] || strip -o "$root/bin/tests" "$tests"
strip -o "$root/bin/forerun" "$program"
# A shell of its own: that of busybox takes its own losetup before ours.
case $what in
arrays)
    programs=("$(command -v mdadm)" "$(command -v dmsetup)" "$(command -v losetup)" "$(command -v dash)")
    modules="loop raid0 raid1 raid10 raid456 dm-mod dm-raid" ;;
power)
    programs=("$(command -v mdadm)" "$(command -v dash)" "$(command -v nbd-client)" "$(command -v mkfs.ext4)")
    modules="nbd raid456" ;;
ublk)
    programs=("$(command -v dash)" "$(command -v fio)" "$(command -v mkfs.ext4)" "$(command -v e2fsck)")
    modules="ublk_drv" ;;
ublk-latency)
    programs=("$(command -v dash)" "$(command -v fio)" "$(command -v nbd-client)")
    cp scripts/ublk-latency.sh "$root/bin/"
    modules="ublk_drv nbd" ;;
write-back)
    programs=("$(command -v dash)" "$(command -v fio)" "$(command -v mdadm)")
    cp scripts/write-back-md.sh "$root/bin/"
    modules="ublk_drv raid456 virtio_pci virtio_blk" ;;
watch)
    # A program that is known is a file of its own, which busybox's are not.
    programs=("$(command -v dash)" "$(command -v losetup)" "$(command -v mkfs.ext4)" "$(command -v cat)" "$(command -v setpriv)"
        "$(command -v mkfs.xfs)" "$(command -v mkfs.btrfs)")
    modules="loop xfs btrfs" ;;
esac
run="tests $filter --nocapture --test-threads 1"
[ "$what" != ublk-latency ] || run="sh /bin/ublk-latency.sh $rounds 5"
[ "$what" != write-back ] || run="sh /bin/write-back-md.sh $rounds $slower"
cp "${programs[@]}" "$root/bin/"
ln -s dash "$root/bin/sh"
ldd "${programs[@]}" ${tests:+"$tests"} "$program" | grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
# The modules and what they need, in the order in which they load.
count=100
for module in $modules; do
    modprobe -d "$out/$kernel" -S "$version" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" {print $2}'
done | awk '!seen[$0]++' | while read -r file; do
    count=$((count + 1))
    # Older kernels' are not packed.
    case $file in
    *.xz) xz -dc "$file" > "$root/modules/$count-$(basename "$file" .xz)" ;;
    *) cp "$file" "$root/modules/$count-$(basename "$file")" ;;
    esac
done

cat > "$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp CARGO_BIN_EXE_forerun=/bin/forerun RUST_BACKTRACE=0
[ $what != power ] || export FORERUN_POWER_CUTS=$cuts FORERUN_CRASH_SEED=${FORERUN_CRASH_SEED:-1}
[ $what != ublk ] || export FORERUN_UBLK_KILLS=$kills
[ $what != watch ] || export TMPDIR=/disk
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
for module in /modules/*; do insmod "\$module" || echo "insmod \$module: \$?"; done
if [ $what = watch ]; then
    mkdir -p /disk
    dd if=/dev/zero of=/tmp/disk.img bs=1M count=0 seek=256 2>/dev/null
    mkfs.ext4 -q -b 4096 /tmp/disk.img && mount -o loop /tmp/disk.img /disk && chmod 1777 /disk
fi
uname -r
$run
echo "tests ended with \$?"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$out/initrd.gz"

# A /dev/kvm that opens may still not run a kernel that was not made for it (some clouds' runs only their own): one boot says whether it does.
# Emulated processors that are threads of their own now and then run code that another of them is writing, as tracepoints and programs in the kernel are put in
# place: an oops at an int3, or a processor that stands still. For `watch`, which does little else, they take turns.
threads=multi
[ "$what" != watch ] || threads=single
accelerator=tcg,thread=$threads how="emulated"
if [ -w /dev/kvm ]; then
    mkdir -p "$out/probe/bin"
    cp "$(command -v busybox)" "$out/probe/bin/busybox"
    printf '#!/bin/busybox sh\necho the probe is up\nexec /bin/busybox poweroff -f\n' > "$out/probe/init"
    chmod +x "$out/probe/init"
    (cd "$out/probe" && find . | cpio --quiet -o -H newc | gzip -1) > "$out/probe.gz"
    if timeout "$PROBE_SECONDS" qemu-system-x86_64 -accel kvm -cpu max -m 512 -nographic -nic none -no-reboot \
        -kernel "$out/$kernel/boot/vmlinuz-$version" -initrd "$out/probe.gz" \
        -append "console=ttyS0 panic=-1 quiet mitigations=off" < /dev/null 2>&1 | grep 'the probe is up' > /dev/null; then
        accelerator=kvm how="by KVM"
    fi
fi
# Disks of the machine that this one emulates, each a preset in which every time is so many times as long. Their bytes are in memory: a disk of this machine
# would add its own time.
disks=() servers=()
# shellcheck disable=SC2317 # called at the end
end_servers() {
    for server in "${servers[@]}"; do kill "$server" 2> /dev/null || true; done
    rm -rf "$images"
}
slow_disk() {
    local preset=$1 name=$2 size=$3
    "$program" device show "$preset" | awk -v slower="$slower" '
        /^rpm = |_mb_per_s = / { $3 = $3 / slower }
        /_us = / { $3 = $3 * slower }
        { print }' > "$out/$name.toml"
    truncate -s "$size" "$images/$name.img"
    rm -f "$out/$name.socket"
    "$program" --quiet serve --over "emulate($out/$name.toml):$images/$name.img" --scheme none --cache 16M --control off --socket "$out/$name.socket" > "$out/$name.log" 2>&1 &
    servers+=($!)
    until [ -S "$out/$name.socket" ]; do kill -0 $!; sleep 0.1; done
    disks+=(-drive "file=nbd+unix:///?socket=$out/$name.socket,format=raw,if=virtio")
}
if [ "$what" = write-back ]; then
    images=$(mktemp -d /dev/shm/arrays-vm.XXXXXX)
    trap end_servers EXIT
    for number in 0 1 2 3 4; do slow_disk cheetah-15k4 "member$number" 1G; done
    slow_disk nvme-pcie4 journal 256M
fi
say "booting $version, $how: some minutes"
timeout $((minutes * 60)) qemu-system-x86_64 -accel "$accelerator" -smp 2 -cpu max -m 1536 -nographic -nic none -no-reboot "${disks[@]}" \
    -kernel "$out/$kernel/boot/vmlinuz-$version" -initrd "$out/initrd.gz" \
    -append "console=ttyS0 panic=-1 quiet tsc=unstable mitigations=off" < /dev/null | sed -u 's/\r//' | tee "$out/log" >&2 || true
grep -q '^tests ended with 0' "$out/log" && ! grep -q 'skipped:' "$out/log" ||
    { say "not every test ran and passed: $out/log"; exit 3; }
if [ "$what" = ublk ]; then
    grep -o -e 'ublk: .*' "$out/log"
fi
if [ "$what" = ublk-latency ]; then
    echo "Linux $version in a virtual machine, $how"
    sed -n '/^what /,/^tests ended/p' "$out/log" | grep -v '^tests ended'
fi
if [ "$what" = write-back ]; then
    echo "Linux $version in a virtual machine, $how; disks $slower times as slow as they are, and rates as if they were not"
    sed -n '/^what /,/^tests ended/p' "$out/log" | grep -v '^tests ended'
fi
if [ "$what" = power ]; then
    grep -o -e 'power cuts: .*' -e 'a journal that is given up: .*' "$out/log"
fi
if [ "$what" = watch ]; then
    sed -n 's/.*kernel: //p' "$out/log"
fi
