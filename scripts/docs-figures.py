#!/usr/bin/env python3
"""Makes every figure of the docs anew, so that none is typed by hand.

A page names the command of a figure in a comment on a line of its own,

    <!-- figure: docs/figures/NAME.txt: forerun compare … -->

and this script runs it in a shell with the release binary first on PATH and writes its output to that file. Where a
fenced block follows the comment, its content is replaced by the output. Give names of files to make only those.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURE = re.compile(r"^<!-- figure: (\S+): ([^\n]+) -->\n(```\w*\n.*?^```\n)?", re.M | re.S)


def make(target, command):
    environment = dict(os.environ, PATH=f"{ROOT / 'target/release'}:{os.environ['PATH']}", NO_COLOR="1", COLUMNS="160")
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"docs-figures: {command}\n{done.stderr}")
    path = ROOT / target
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(line.rstrip() for line in done.stdout.strip("\n").split("\n")) + "\n"
    path.write_text(text)
    return text


def main():
    wanted = set(sys.argv[1:])
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    made = {}
    for name in pages.stdout.split():
        page = ROOT / name
        text = page.read_text()

        def replace(match):
            target, command, block = match.groups()
            if wanted and target not in wanted:
                return match.group(0)
            if (target, command) not in made:
                print(f"{target}: {command}", file=sys.stderr)
                made[target, command] = make(target, command)
            head = f"<!-- figure: {target}: {command} -->\n"
            return head + (f"```text\n{made[target, command]}```\n" if block else "")

        changed = FIGURE.sub(replace, text)
        if changed != text:
            page.write_text(changed)


main()
