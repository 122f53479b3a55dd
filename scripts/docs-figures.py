#!/usr/bin/env python3
"""Makes every figure of the docs anew, so that none is typed by hand.

A page names the command of a figure in a comment on a line of its own,

    <!-- figure: docs/figures/NAME.txt: forerun compare … -->

and this script runs it in a shell with the release binary first on PATH and writes its output to that file. Where a
fenced block follows the comment, its content is replaced by the command, so that a reader sees it, and the output. Give names of
files to make only those; `--commands` runs nothing and writes the blocks from the files that there are.

`--check` writes nothing: it runs the commands whose figures are of virtual time, which are the same on every machine, and
fails where an output differs from the committed one. `--quick` leaves out those that take minutes (`reproduce`, many seeds or many pairs, and comparisons
with `oracle` but the README's), `--binary DIR`
takes the binary from there.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 118
FIGURE = re.compile(r"^<!-- figure: (\S+): ([^\n]+) -->\n(```\w*\n.*?^```\n)?", re.M | re.S)


def output(command, binary):
    environment = dict(os.environ, PATH=f"{ROOT / binary}:{os.environ['PATH']}", NO_COLOR="1", COLUMNS="1000")
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"docs-figures: {command}\n{done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").split("\n")) + "\n"


def make(target, command, binary):
    path = ROOT / target
    path.parent.mkdir(parents=True, exist_ok=True)
    text = output(command, binary)
    path.write_text(text)
    return text


def check(figures, binary, quick):
    """Whether the figures of virtual time are what their commands print; prints what differs. Two at once: most of each has one thread."""
    wanted = []
    for target, command in sorted(set(figures)):
        # Whatever else runs measures a machine, or draws.
        if not re.search(r"(^|; |do )(forerun |scripts/figure-(regret|demo-nearby|mixes|without).py$)", command) or (quick and re.search(" reproduce |demo-nearby|mixes|regret|without|streams=800|--file-system zfs", command)):
            continue
        traces = re.search(r"--traces (\S+)", command)
        if traces and not (ROOT / traces.group(1)).is_dir():
            print(f"{target}: passed over, {traces.group(1)} is not there", file=sys.stderr)
            continue
        wanted.append((target, command))
    same = True
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as both:
        def timed(figure):
            begun = time.monotonic()
            return output(figure[1], binary), time.monotonic() - begun

        for (target, command), (now, seconds) in zip(wanted, both.map(timed, wanted)):
            print(f"{target}: {seconds:.1f} s: {command}", file=sys.stderr)
            told, found = (ROOT / target).read_text().splitlines(), now.splitlines()
            for line in difflib.unified_diff(told, found, target, "now", lineterm=""):
                same = False
                print(line)
    return same


def shown(command):
    """The command as one would type it, in lines of WIDTH that a shell joins."""
    lines = ["$"]
    # An option stays with its value.
    for word in re.findall(r"""(?:--[\w-]+ (?=[^- ]))?(?:'[^']*'|"[^"]*"|\S)+""", command):
        if len(lines[-1]) + 1 + len(word) > WIDTH - 2:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += " " + word
    return "\n".join(lines) + "\n\n"


def main():
    parser = argparse.ArgumentParser(description="makes the figures of the docs anew, or checks them")
    parser.add_argument("figures", nargs="*", metavar="FILE")
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", metavar="DIR", default="target/release")
    args = parser.parse_args()
    wanted = set(args.figures)
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    made = {}
    if args.check:
        figures = []
        for name in pages.stdout.split():
            for match in FIGURE.finditer((ROOT / name).read_text()):
                target, command, _ = match.groups()
                # What is found offline takes many runs: of these only the README's is quick enough.
                slow = " compare " in command and "--no-bounds" not in command and name != "README.md"
                if (not wanted or target in wanted) and not (args.quick and slow):
                    figures.append((target, command))
        sys.exit(0 if check(figures, args.binary, args.quick) else "docs-figures: figures of the docs are not what they were")
    for name in pages.stdout.split():
        page = ROOT / name
        text = page.read_text()

        def replace(match):
            target, command, block = match.groups()
            if wanted and target not in wanted:
                return match.group(0)
            if args.commands:
                made[target, command] = (ROOT / target).read_text() if block else ""
            if (target, command) not in made:
                print(f"{target}: {command}", file=sys.stderr)
                made[target, command] = make(target, command, args.binary)
            head = f"<!-- figure: {target}: {command} -->\n"
            return head + (f"```text\n{shown(command)}{made[target, command]}```\n" if block else "")

        changed = FIGURE.sub(replace, text)
        if changed != text:
            page.write_text(changed)


main()
