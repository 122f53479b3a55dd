# Every entry point of the project. `make help` lists them; a line with ## is its description.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# rustup puts cargo here when scripts/install-deps.sh had to install it in the same run.
export PATH := $(HOME)/.cargo/bin:$(PATH)
export CARGO_TERM_COLOR ?= auto

OUT ?= out
# Executions per parser for `make fuzz`.
FUZZ_EXECUTIONS ?= 1000000
# Options of scripts/matrix.py.
MATRIX ?=

# Crash points of `make soak-crash`, and the first seed.
POINTS ?= 100000000
FIRST ?= 0

# Kills of `make crash-binary`, of each kind of member: 50 take less than two minutes, a soak is 1000.
CYCLES ?= 50

# Power cuts of `make power-cuts`.
CUTS ?= 200

# Kills of `make test-ublk`, half of them over write-back.
KILLS ?= 20

.PHONY: help deps build demo test lint fmt docs tidy test-arrays test-ublk test-watch-kernels deny fuzz miri prove bench-sim record-demo-trace record-traces docs-figures docs-check reproduce install clean soak-serve soak-crash crash-binary power-cuts crash-table bench-serve bench-ublk bench-write-back-md bench-flood bench-policies bench-streams bench-watch bench-watch-table bench-watch-foretell bench-watch-charge bench-watch-costs bench-device bench-advise bench-fadvise bench-manifest bench-watch-boot compare-kernel figure-live matrix matrix-quick matrix-cells

help: ## List the entry points
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

deps: ## Install what building and testing need (Debian packages, the Rust toolchain) where it is missing
	@scripts/install-deps.sh

build: deps ## Build the binary in release mode: target/release/forerun
	FORERUN_VERSION="$$(scripts/version.sh)" cargo build --release --locked -p forerun

demo: deps ## Replay the shipped trace on a five-disk RAID-5 under every scheme: a table and an HTML report (a build of its own, quick to make)
	FORERUN_VERSION="$$(scripts/version.sh)" cargo build --profile demo --locked -p forerun --no-default-features
	@scripts/demo.sh $(OUT)

test: deps ## Everything that CI holds: format, lints, tests, docs, licences
	@scripts/install-deps.sh clients
	@scripts/test.sh

lint: deps ## Clippy with the workspace's lints, warnings as errors, of the small build that knows no objects too
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p forerun-serve -p forerun --no-default-features --all-targets --locked -- -D warnings

fmt: deps ## Format the sources
	cargo fmt --all

docs: deps ## The documentation of all crates, warnings as errors
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --locked --document-private-items

tidy: deps ## Only the repository's own rules (crates/tidy)
	cargo test --locked -p forerun-tidy

test-arrays: deps ## The tests over real arrays of md and dm, in a virtual machine (Debian, QEMU; some minutes, fetches a kernel)
	scripts/arrays-vm.sh

test-ublk: deps ## Kills of a server under ext4 and fio on its block device, in a virtual machine (KILLS=20; some minutes, fetches a kernel)
	scripts/arrays-vm.sh ublk $(KILLS)

test-watch-kernels: deps ## What of watch works on Debian's kernels 6.1 and 6.12, in virtual machines, and here: a table (root, QEMU; some minutes, fetches kernels)
	@scripts/watch-kernels.py

bench-ublk: build ## Reads over ublk beside reads over the kernel's nbd client, in a virtual machine (some minutes, fetches a kernel)
	BINARY=target/release/forerun scripts/arrays-vm.sh ublk-latency

bench-write-back-md: build ## Writes in order to RAID-5 of md beside the same through write-back, in a virtual machine over disks in slow motion
	BINARY=target/release/forerun scripts/arrays-vm.sh write-back 3

deny: deps ## Licences and advisories of all dependencies (cargo-deny, where it is installed)
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --locked check licenses bans sources; \
	else echo "cargo-deny is not installed: cargo install --locked cargo-deny"; fi

fuzz: deps ## Mutate the sample traces, NBD sessions, journals and manifests against every parser, FUZZ_EXECUTIONS each (1,000,000)
	cargo run --release --locked -p forerun-trace --example fuzz_traces -- --executions $(FUZZ_EXECUTIONS)
	cargo run --release --locked -p forerun-serve --example fuzz_session -- --executions $(FUZZ_EXECUTIONS)
	cargo run --release --locked -p forerun-serve --example fuzz_journal -- --executions $(FUZZ_EXECUTIONS)
	cargo run --release --locked -p forerun-manifest --example fuzz_manifest -- --executions $(FUZZ_EXECUTIONS)

miri: deps ## Tests of the server's unsafe code and of core's tables under miri, which finds undefined behaviour (a nightly toolchain; some minutes)
	@scripts/miri.sh

prove: deps ## What is small enough for a proof: by Kani where it is installed, else tests of all cases up to a bound, which is said
	@scripts/prove.sh

soak-serve: deps ## Ten million mixed reads and writes through the server against a shadow model, every scheme and backend
	FORERUN_SHADOW_OPS=1670000 cargo test --release --locked -p forerun-serve --test serve shadow::bytes -- --test-threads 2

soak-crash: deps ## A hundred million crash points of the server's volume and sessions, simulated (POINTS=100000000)
	CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo run --locked --quiet -p forerun-serve --features crash --example crash -- points $(POINTS) --first $(FIRST)

crash-binary: deps ## Kills the program itself again and again, over a file and over a member that loses power with it (CYCLES=50)
	FORERUN_CRASH_CYCLES=$(CYCLES) cargo test --locked --quiet -p forerun --test cli crash_binary

power-cuts: deps ## Power cuts under ext4 on write-back on RAID-5 of md, in a virtual machine (CUTS=200; an hour or more, fetches a kernel)
	scripts/arrays-vm.sh power $(CUTS)

crash-table: deps ## The counts of docs/reliability.md: points judged, and points until each planted bug is found
	python3 scripts/docs-figures.py docs/figures/crash-points.txt docs/figures/crash-bugs.txt docs/figures/crash-back-points.txt \
		docs/figures/crash-over-back-points.txt docs/figures/crash-over-back-bugs.txt docs/figures/crash-array-points.txt \
		docs/figures/crash-array-bugs.txt docs/figures/crash-over-array-points.txt docs/figures/crash-over-array-bugs.txt

bench-serve: build ## The server beside nbdkit and qemu-nbd, and an emulated array beside the simulator's prediction
	@scripts/install-deps.sh clients
	@scripts/bench-serve.sh

bench-flood: deps ## Whether a cached read waits 10 ms or less beside a flood of writes that overlap (a quiet machine)
	FORERUN_FLOOD_MS=10 cargo test --locked --workspace --test serve \
	    --config 'profile.dev.package.forerun-serve.opt-level=3' --config 'profile.dev.package.forerun-core.opt-level=3' \
	    -- --nocapture writes_that_overlap_do_not_hold_up_a_cached_read

bench-sim: deps ## Speed of the simulator and of cache-only runs, beside libCacheSim
	@scripts/bench-sim.sh

bench-policies: deps ## Decisions a second and memory a file of every scheme of the page cache, at 1, 100 and 10,000 open files
	@mkdir -p $(OUT)/bench
	cargo run --release --locked --quiet -p forerun-core --example decide_files | tee $(OUT)/bench/policies.txt
	@echo "scripts/docs-figures.py docs/figures/policies.txt makes the table of the docs" >&2

bench-streams: deps ## Requests a second that the stream schedulers decide, at 100, 1,000 and 10,000 streams
	@mkdir -p $(OUT)/bench
	cargo run --release --locked --quiet -p forerun-core --example decide_streams | tee $(OUT)/bench/streams.txt

bench-watch: build ## What watch and load earn on emulated devices: second runs, whole files, all programs, first runs by patterns (root, Linux 6.18; some minutes)
	cargo build --release --locked -p forerun-rig
	@mkdir -p $(OUT)/bench
	@scripts/bench-watch.py | tee $(OUT)/bench/watch.txt
	@scripts/bench-watch-all.py | tee $(OUT)/bench/watch-all.txt
	@scripts/bench-watch-first.py | tee $(OUT)/bench/watch-first.txt

bench-watch-table: build ## Whole programs under each way of reading ahead, on ext4 (fresh and aged), xfs and btrfs, with means (root, Linux 6.12; an hour)
	@scripts/install-deps.sh clients
	cargo build --release --locked -p forerun-rig
	@mkdir -p $(OUT)/bench
	@scripts/bench-watch-table.py --models ssd,cloud --systems ext4,aged,xfs,btrfs | tee $(OUT)/bench/watch-table.txt

bench-watch-costs: build ## What watch costs a cached read, events that it takes a second and how late it comes (root, Linux 6.18; some minutes)
	cargo build --release --locked -p forerun-rig --bins --example cached_reads
	@mkdir -p $(OUT)/bench
	@scripts/bench-watch-costs.py | tee $(OUT)/bench/watch-costs.txt

bench-watch-foretell: build ## How well watch --observe --record and compare foretell what watch earns (root, Linux 6.18; some minutes)
	cargo build --release --locked -p forerun-rig
	@mkdir -p $(OUT)/bench
	@scripts/bench-watch-foretell.py --way -1 | tee $(OUT)/bench/watch-foretell.txt

bench-watch-charge: build ## What watch --charge reader costs: replays on both accounts (root, Linux 6.12, cgroups with memory; some minutes)
	cargo build --release --locked -p forerun-rig
	@mkdir -p $(OUT)/bench
	@scripts/bench-watch-charge.py | tee $(OUT)/bench/watch-charge.txt

bench-device: build ## How well presets that `device measure` makes predict other loads: models, emulated devices, this disk (some minutes)
	cargo build --release --locked -p forerun-rig
	@scripts/install-deps.sh clients
	@mkdir -p $(OUT)/bench
	@scripts/bench-device.py | tee $(OUT)/bench/device.txt

bench-advise: build ## Whether what advise says of read_ahead_kb comes true: programs on emulated devices, before and after (root, Linux 6.12; some minutes)
	cargo build --release --locked -p forerun-rig
	@mkdir -p $(OUT)/bench
	@scripts/bench-advise.py | tee $(OUT)/bench/advise.txt

bench-fadvise: build ## Whether a program gains what advise predicts of calls for single files, on an emulated device (root, Linux 6.12; a minute)
	cargo build --release --locked -p forerun-rig
	@mkdir -p $(OUT)/bench
	@scripts/bench-fadvise.py | tee $(OUT)/bench/fadvise.txt

bench-manifest: build ## What a manifest earns at a start: programs, and a Debian to its login, over far stores and a slow disk (root, FUSE, QEMU; some 25 minutes)
	@scripts/install-deps.sh clients
	@mkdir -p $(OUT)/bench
	@scripts/bench-manifest.py | tee $(OUT)/bench/manifest.txt

bench-watch-boot: build ## What `watch --boot` earns: a Debian to its login in an emulated machine, alone, recorded and read ahead of (root, QEMU; five minutes)
	@mkdir -p $(OUT)/bench
	@scripts/bench-watch-boot.py | tee $(OUT)/bench/watch-boot.txt

compare-kernel: deps ## Whether the running kernel reads ahead page for page as linux-6 says (Linux 6.12, ext4 or xfs)
	@scripts/compare-kernel.sh

record-demo-trace: build ## Record the demo's trace anew (root, a kernel with tracepoints, a loop device)
	@scripts/record-demo-trace.sh

record-traces: build ## Record the traces of files anew (root, Linux 6.12, a loop device; some minutes)
	@scripts/record-traces.sh

reproduce: build ## Every figure of the papers that runs in virtual time: tables, CSV, HTML
	@mkdir -p $(OUT)
	target/release/forerun reproduce asp --demo-trace $(firstword $(wildcard traces/demo.*)) --csv $(OUT)/asp.csv --html $(OUT)/asp.html
	target/release/forerun reproduce rpp --csv $(OUT)/rpp.csv --html $(OUT)/rpp.html
	target/release/forerun reproduce streams --csv $(OUT)/streams.csv --html $(OUT)/streams.html
	target/release/forerun reproduce flashy $(addprefix --traces ,$(wildcard ../shared/traces)) --csv $(OUT)/flashy.csv --html $(OUT)/flashy.html

matrix: build ## All schemes over inputs, arrays, devices, cache sizes and modes (docs/figures/matrix-all.*); goes on where it was broken off
	python3 scripts/matrix.py --write --causes $(MATRIX)

matrix-quick: build ## The same over a subset, some minutes on one core; MATRIX='--device nvme --scheme asp' and the like choose
	python3 scripts/matrix.py --quick $(MATRIX)

matrix-cells: build ## `auto` and `grain` on a fixed set of cells, each shown; MATRIX='--cells held-out' is another set
	python3 scripts/matrix.py --cells development $(MATRIX)

docs-figures: build ## Run every command that a figure in the docs names, and write its output to docs/figures
	python3 scripts/docs-figures.py

docs-check: build ## Whether the figures of virtual time in the docs are what their commands print (some minutes)
	python3 scripts/docs-figures.py --check

figure-live: build ## Draw the live page of four emulated disks under reads (fio, chromium)
	PATH="$(CURDIR)/target/release:$$PATH" scripts/figure-live.sh

.PHONY: wheel test-python deb test-deb test-units test-packaging static release bench-python test-ray

wheel: deps ## The Python wheel, module and command in one, in out/wheel (maturin, fetched where it is missing)
	@scripts/wheel.sh release

test-python: deps ## Install a wheel into a fresh environment and run the tests of the Python module there (some minutes)
	@scripts/test-python.sh

bench-python: deps ## Policies in Python, and replacement beside libCacheSim's wheel: a release wheel in an environment of its own
	@mkdir -p $(OUT)/bench
	@scripts/python-lab.sh 'libcachesim~=0.3.5' numpy -- scripts/bench-python.py policies | tee $(OUT)/bench/python-policies.txt
	@scripts/python-lab.sh 'libcachesim~=0.3.5' numpy -- scripts/bench-python.py misses | tee $(OUT)/bench/python-misses.txt

test-ray: deps ## A sweep of 2,000 cells on a Ray cluster on this machine that loses a worker and its driver (some minutes)
	@mkdir -p $(OUT)/bench
	@scripts/python-lab.sh 'ray>=2.40' -- scripts/ray-sweep.py | tee $(OUT)/bench/ray.txt
	@echo "scripts/docs-figures.py docs/figures/ray.txt makes the table of the docs" >&2

deb: build ## The Debian package, in out/deb: command, manual pages, completions, units that nobody has enabled
	@scripts/deb.sh

test-packaging: build ## Prometheus rules, Grafana dashboard and Kubernetes example, against the server, promtool and the schema
	@scripts/test-packaging.py

test-units: build ## The package and its units under a real systemd, started, used, killed and stopped: a Debian 12 in an emulated machine (root, QEMU; six minutes); KERNEL=PACKAGE for another kernel
	@scripts/units-vm.py $(if $(KERNEL),--kernel $(KERNEL))

test-deb: build ## lintian, the units' exposure, and the package installed, run and purged in a root of its own (root)
	@scripts/test-deb.sh

static: deps ## A binary that needs no library of the system (musl), in out/static
	@scripts/static.sh

release: ## Everything that a release hands out, tested, with checksums, SBOM and how it was made, in out/release (.ci/release; long)
	@.ci/release

install: build ## Install the binary, the manual pages and the shell completions under PREFIX (~/.local)
	@scripts/install.sh

clean: ## Remove what the build and the demo left
	cargo clean
	rm -rf $(OUT)
