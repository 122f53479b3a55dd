#!/usr/bin/env python3
"""Draws docs/figures/processes.svg: throughput of a forward read against the number of processes.

Runs `forerun compare` (the release binary must be on PATH; `make docs-figures` sees to that) on the workload of the
ASP paper's Fig. 9a and prints an SVG that follows the reader's light or dark preference. Standard library only.
"""
import json
import subprocess

PROCESSES = [1, 2, 4, 8, 16]
SCHEMES = ["none", "seqp:128KiB", "asp", "asp+msp"]
# What they do, for those who do not know their names.
NAMES = {
    "none": ["no read-ahead above", "the drives (none)"],
    "seqp:128KiB": ["a window of 128 KiB", "a reader (seqp)"],
    "asp": ["whole strips where", "that pays (asp)"],
    "asp+msp": ["strips, and all disks", "at once for few", "readers (asp+msp)"],
}
COLOURS = ["#767676", "#c8660a", "#0072b2", "#00805e"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 64, 180, 46, 48


def measure():
    """MiB/s by scheme, one value per number of processes."""
    curves = {scheme: [] for scheme in SCHEMES}
    for count in PROCESSES:
        command = ["forerun", "--quiet", "compare", f"iozone:test=forward,processes={count}", "--array", "raid5:5x128KiB",
                   "--device", "cheetah-15k4", "--scheduler", "anticipatory", "--cpu", "xeon-2005"]
        command += ["--cache", "500MiB", "--no-bounds", "--json"]
        for scheme in SCHEMES:
            command += ["--scheme", scheme]
        runs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"]
        for run in runs:
            curves[run["scheme"]].append(run["throughput_bytes_per_s"] / 2**20)
    return curves


def draw(curves):
    top = max(max(values) for values in curves.values()) * 1.08
    step = (WIDTH - LEFT - RIGHT) / (len(PROCESSES) - 1)

    def at(index, value):
        return LEFT + index * step, HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Throughput of a forward read against the number of processes">',
        "<style>text{font:13px system-ui,sans-serif;fill:#333}.g{stroke:#ddd}"
        "@media(prefers-color-scheme:dark){text{fill:#ccc}.g{stroke:#444}}</style>",
        f'<text x="{LEFT}" y="20" style="font-weight:600">Forward read of 2 GiB in 4 KiB requests, five-disk RAID-5, '
        "drives that read ahead too</text>",
        f'<text x="{LEFT}" y="37">MiB/s by number of processes (virtual time)</text>',
    ]
    for tick in range(0, int(top) + 1, 50):
        _, y = at(0, tick)
        svg.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    for index, count in enumerate(PROCESSES):
        x, _ = at(index, 0)
        svg.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{count}</text>')
    labels = []
    for scheme, colour in zip(SCHEMES, COLOURS):
        points = [at(index, value) for index, value in enumerate(curves[scheme])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        svg.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        svg += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        labels.append([points[-1][1], scheme, colour])
    labels.sort()
    # None over another, and none below the axis.
    for before, label in zip(labels, labels[1:]):
        label[0] = max(label[0], before[0] + 16 * len(NAMES[before[1]]) + 4)
    low = HEIGHT - BOTTOM
    for label in reversed(labels):
        label[0] = min(label[0], low - 16 * (len(NAMES[label[1]]) - 1))
        low = label[0] - 20
    for y, scheme, colour in labels:
        for line, words in enumerate(NAMES[scheme]):
            svg.append(f'<text x="{WIDTH - RIGHT + 10}" y="{y + 4 + 16 * line:.1f}" style="fill:{colour};font-weight:600">{words}</text>')
    svg.append("</svg>")
    return "\n".join(svg)


print(draw(measure()))
