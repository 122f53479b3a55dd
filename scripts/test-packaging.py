#!/usr/bin/env python3
"""Tests what is shipped for other programs to read: Prometheus rules, the Grafana dashboard, the Kubernetes example.

Usage: scripts/test-packaging.py [BINARY] (the release binary unless said). A server of that binary runs for it, and every metric and every
label that a rule or a panel names must be one that it shows. promtool is taken from the PATH, or out of Debian's package, which is not
installed; the schema of Kubernetes is that of the package kubernetes-validate, in an environment of its own. What cannot be had is said.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "forerun"
RULES = ROOT / "packaging/prometheus/forerun.rules.yml"
DASHBOARD = ROOT / "packaging/grafana/forerun.json"
KUBERNETES = ROOT / "packaging/kubernetes/forerun.yaml"
# What the dashboard's variables stand for.
VARIABLES = {"$job": "forerun", "$instance": ".*", "$export": ".*", "$__rate_interval": "5m"}
# Of Prometheus itself.
FOREIGN = {"up"}
# What Prometheus adds to all it reads.
FOREIGN_LABELS = {"job", "instance"}


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"test-packaging: {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def promtool():
    """Where promtool is; nothing where it cannot be had."""
    kept = CACHE / "prometheus"
    found = shutil.which("promtool", path=f"{os.environ['PATH']}:{kept}/usr/bin")
    if found is None and shutil.which("apt-get"):
        kept.mkdir(parents=True, exist_ok=True)
        got = subprocess.run(["apt-get", "download", "-q", "prometheus"], cwd=kept, capture_output=True, check=False)
        for package in kept.glob("*.deb") if got.returncode == 0 else ():
            run("dpkg-deb", "-x", package, kept)
        found = shutil.which("promtool", path=f"{kept}/usr/bin")
    return found


def page(binary, work):
    """What a server shows at /metrics."""
    image = work / "disk.img"
    image.write_bytes(b"\0" * (8 << 20))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The server runs for as long as the command: once it runs, both sockets are there.
    out = work / "metrics"
    fetch = f'{sys.executable} {__file__} --fetch "$unixsocket" http://127.0.0.1:{port}/metrics {out}'
    words = ["serve", "--over", image, "--scheme", "asp", "--cache", "16MiB", "--http", f"127.0.0.1:{port}", "--socket", work / "socket"]
    run(binary, *words, "--run", fetch)
    return out.read_text()


def read_some(path):
    """Reads sixteen times 64 KiB through a server's socket, as an NBD client does; what nobody has asked for has no figures."""

    def take(many):
        data = b""
        while len(data) < many:
            more = client.recv(many - len(data))
            assert more, "the server hung up"
            data += more
        return data

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        assert take(18)[:16] == b"NBDMAGICIHAVEOPT"
        # Fixed newstyle without zeroes; then GO for the export without a name.
        client.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">IIIH", 7, 6, 0, 0))
        reply = 0
        while reply != 1:
            _, _, reply, length = struct.unpack(">QIII", take(20))
            assert reply < 1 << 31, f"the server refused with {reply:#x}"
            take(length)
        for number in range(16):
            client.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, number, number << 16, 1 << 16))
            _, error, _ = struct.unpack(">IIQ", take(16))
            assert error == 0 and len(take(1 << 16)) == 1 << 16
        client.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 0, 0, 0))


def expressions(dashboard):
    """Of every panel and variable, as Prometheus sees it."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield panel["title"], text


def prometheus(tool, shown, work):
    dashboard = json.loads(DASHBOARD.read_text())
    panels = list(expressions(dashboard))
    names = {panel["id"] for panel in dashboard["panels"]}
    assert len(names) == len(dashboard["panels"]), "two panels have one id"
    known = {line.split()[2] for line in shown.splitlines() if line.startswith("# TYPE")}
    known |= {name + end for name in known for end in ("_bucket", "_sum", "_count")} | FOREIGN
    labels = set(re.findall(r'[{,](\w+)="', shown)) | FOREIGN_LABELS
    alerts = re.findall(r"(?:expr: (?:>-\n)?)(.*(?:\n +and .*)?)", RULES.read_text())
    for where, text in [*panels, *(("a rule", text) for text in alerts)]:
        for name in re.findall(r"\b(?:forerun|process)_\w+|\bup\b", text):
            assert name in known, f"{where}: the server shows no {name}"
        for name in re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", text))):
            assert name in labels, f"{where}: the server shows no label {name}"
    print(f"{len(panels)} expressions of the dashboard and {len(alerts)} alerts name only metrics and labels that the server shows")
    if tool is None:
        print("skipped: promtool cannot be had, so no rule was run")
        return
    # PromQL reads the dashboard's expressions as rules.
    rules = [{"record": f"panel:{number}", "expr": text} for number, (_, text) in enumerate(panels)]
    (work / "panels.json").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    run(tool, "check", "rules", work / "panels.json")
    run(tool, "check", "rules", RULES)
    run(tool, "test", "rules", RULES.with_suffix(".test.yml"))
    # Quantiles of the last ten seconds are gauges: a summary counts from the start. Nothing else may be remarked on.
    remarks = subprocess.run([tool, "check", "metrics"], input=shown, capture_output=True, text=True, check=False)
    others = [line for line in (remarks.stdout + remarks.stderr).splitlines() if 'should not have "quantile" label' not in line]
    assert not others, others
    told = set(re.findall(r"alertname: (\w+)", RULES.with_suffix(".test.yml").read_text()))
    assert told == set(re.findall(r"alert: (\w+)", RULES.read_text())), "an alert without a test"
    print(f"{len(alerts)} alerts came when they were due, and not before")


def kubernetes():
    home = CACHE / "kubernetes"
    if not (home / "ready").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
            subprocess.run([home / "bin/pip", "install", "-q", "--disable-pip-version-check", "kubernetes-validate~=1.37"], check=True)
        except subprocess.CalledProcessError:
            print("skipped: kubernetes-validate cannot be had, so the example was not held against a schema")
            return
        (home / "ready").touch()
    command = home / "bin/kubernetes-validate"
    run(command, "--strict", KUBERNETES)
    wrong = KUBERNETES.read_text().replace("terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: soon")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as bent:
        bent.write(wrong)
        bent.flush()
        refused = subprocess.run([command, "--strict", bent.name], capture_output=True, check=False)
        assert refused.returncode != 0, "the schema refuses nothing"
    print("the Kubernetes example has the shape that Kubernetes wants")


def main():
    if sys.argv[1:2] == ["--fetch"]:
        _, _, path, address, out = sys.argv
        read_some(path)
        # What a visitor sees is renewed while the server has nothing to do.
        for _ in range(100):
            with urllib.request.urlopen(address, timeout=30) as answer:
                pathlib.Path(out).write_bytes(answer.read())
            if "forerun_read_latency_worst_client_seconds" in pathlib.Path(out).read_text():
                break
            time.sleep(0.2)
        return
    binary = sys.argv[1] if len(sys.argv) > 1 else f"{os.environ.get('CARGO_TARGET_DIR', 'target')}/release/forerun"
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        prometheus(promtool(), page(os.path.abspath(binary), work), work)
    kubernetes()
    print("3 passed, 0 failed")


main()
