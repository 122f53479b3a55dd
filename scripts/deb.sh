#!/usr/bin/env bash
# Makes the Debian package of a built binary in OUT (out/deb): command, manual pages, completions, configuration, units that nobody
# has enabled. Usage: scripts/deb.sh [BINARY], the release binary unless said; MAINTAINER='Name <address>' of who publishes it. Debug
# information goes into a package of its own beside it, forerun-dbgsym, where gdb finds it by the binary's build id.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-${CARGO_TARGET_DIR:-target}/release/forerun}
out=${OUT:-out/deb}
maintainer=${MAINTAINER:-The Forerun authors <forerun@localhost.localdomain>}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n1)
architecture=$(dpkg --print-architecture)
[ -x "$binary" ] || { echo "deb.sh: $binary is not there: make build" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -d "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/doc/forerun" "$out"
strip --strip-unneeded --remove-section=.comment --remove-section=.note -o "$root/usr/bin/forerun" "$binary"

"$binary" --quiet man "$root/usr/share/man/man1"
find "$root/usr/share/man" -name '*.1' -exec gzip -9n {} +
completion() { install -d "$(dirname "$root/$2")" && "$binary" completions "$1" >"$root/$2"; }
completion bash usr/share/bash-completion/completions/forerun
completion zsh usr/share/zsh/vendor-completions/_forerun
completion fish usr/share/fish/vendor_completions.d/forerun.fish
install -Dm644 packaging/forerun.toml "$root/etc/forerun/forerun.toml"
install -Dm644 -t "$root/lib/systemd/system" packaging/systemd/* packaging/forerun-watch.service
install -Dm644 -t "$root/usr/share/forerun/prometheus" packaging/prometheus/forerun.rules.yml
install -Dm644 -t "$root/usr/share/forerun/grafana" packaging/grafana/forerun.json
install -Dm644 -t "$root/usr/share/doc/forerun/examples" packaging/kubernetes/forerun.yaml
install -m644 packaging/deb/copyright "$root/usr/share/doc/forerun/copyright"
# The time of what is packed is that of the commit, so that the same binary gives the same package. Not for what compiles: the C in it would
# be compiled anew for every commit.
when=$(git log -1 --format=%cD 2>/dev/null || date -uR)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date -d "$when" +%s)}
export SOURCE_DATE_EPOCH
gzip -9n >"$root/usr/share/doc/forerun/changelog.gz" <<END
forerun ($version) unstable; urgency=medium

  * See CHANGELOG.md of the source.

 -- $maintainer  $when
END

for script in postinst prerm postrm; do install -m755 "packaging/deb/$script" "$root/DEBIAN/$script"; done
echo /etc/forerun/forerun.toml >"$root/DEBIAN/conffiles"
# What the libraries are called that the binary is linked with.
work=$(mktemp -d)
install -d "$work/debian"
printf 'Source: forerun\n\nPackage: forerun\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/forerun" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
rm -rf "$work"
cat >"$root/DEBIAN/control" <<END
Package: forerun
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: ${depends:-libc6}
Section: admin
Priority: optional
Description: prefetching for storage that shows whether it pays
 Forerun reads storage ahead of the programs that will ask for it. It simulates
 prefetching schemes on traces, serves files and devices over NBD through a
 prefetching cache, and reads ahead of commands into the kernel's page cache.
END

# Packs a root into NAME_VERSION_ARCHITECTURE.deb.
pack() {
    (cd "$2" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    local package=$out/$1_${version}_${architecture}.deb
    dpkg-deb --root-owner-group -Zxz --build "$2" "$package" >/dev/null
    ls -l "$package" | awk '{ print $5, $9 }'
}
pack forerun "$root"

id=$(readelf -n "$binary" | sed -n 's/.*Build ID: //p')
[ -n "$id" ] || { echo "deb.sh: $binary has no build id, so its debug information stays with it" >&2; exit 1; }
debug=$(mktemp -d)
trap 'rm -rf "$root" "$debug"' EXIT
chmod 755 "$debug"
install -d "$debug/DEBIAN" "$debug/usr/lib/debug/.build-id/${id:0:2}" "$debug/usr/share/doc"
objcopy --only-keep-debug --compress-debug-sections "$binary" "$debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
chmod 644 "$debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
ln -s forerun "$debug/usr/share/doc/forerun-dbgsym"
cat >"$debug/DEBIAN/control" <<END
Package: forerun-dbgsym
Source: forerun
Version: $version
Auto-Built-Package: debug-symbols
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$debug" | cut -f1)
Depends: forerun (= $version)
Section: debug
Priority: optional
Description: debug symbols for forerun
Build-Ids: $id
END
pack forerun-dbgsym "$debug"
