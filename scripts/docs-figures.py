#!/usr/bin/env python3
"""Makes every figure of the docs anew, so that none is typed by hand.

A page names the command of a figure in a comment on a line of its own,

    <!-- figure: docs/figures/NAME.txt: forerun compare … -->

and this script runs it in a shell with the release binary first on PATH and writes its output to that file. Where a
fenced block follows the comment, its content is replaced by the command, so that a reader sees it, and the output. Give names of
files to make only those; `--commands` runs nothing and writes the blocks from the files that there are.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 118
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
    wanted = set(sys.argv[1:])
    only_commands = "--commands" in wanted
    wanted.discard("--commands")
    pages = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    made = {}
    for name in pages.stdout.split():
        page = ROOT / name
        text = page.read_text()

        def replace(match):
            target, command, block = match.groups()
            if wanted and target not in wanted:
                return match.group(0)
            if only_commands:
                made[target, command] = (ROOT / target).read_text() if block else ""
            if (target, command) not in made:
                print(f"{target}: {command}", file=sys.stderr)
                made[target, command] = make(target, command)
            head = f"<!-- figure: {target}: {command} -->\n"
            return head + (f"```text\n{shown(command)}{made[target, command]}```\n" if block else "")

        changed = FIGURE.sub(replace, text)
        if changed != text:
            page.write_text(changed)


main()
