"""Sweeps on Ray: the bytes of the local ones."""

import subprocess
import sys

import pytest

import forerun.sweep
from forerun import _native

STUDY = """
[fixed]
device = "wd-7200"
[matrix]
input = ["{trace}", "random:size=16MiB,requests=50"]
scheme = ["none", "asp"]
cache = ["16MiB", "64MiB"]
seed = [1, 2]
"""


@pytest.fixture
def study(tmp_path, small):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(trace=small))
    return path


def test_cells_run_elsewhere_give_the_bytes_of_the_command(command, study, tmp_path, small):
    command("sweep", str(study), "-o", str(tmp_path / "local"))
    sweep = _native.Sweep(str(study), str(tmp_path / "spread"))
    assert sweep.finish() is None
    for given, cell in reversed(sweep.open_cells()):
        data = small.read_bytes() if given == str(small) else None
        sweep.append(_native.sweep_cells([cell], data))
    assert sweep.open_cells() == []
    assert sweep.finish() == (tmp_path / "spread" / "results.parquet")
    results = [(tmp_path / name / "results.parquet").read_bytes() for name in ("local", "spread")]
    assert results[0] == results[1]
    assert forerun.sweep.run(str(study), str(tmp_path / "local"), address="nowhere:1") == tmp_path / "local" / "results.parquet", "all is done"


def test_on_a_cluster_of_this_machine(command, study, tmp_path):
    pytest.importorskip("ray")
    command("sweep", str(study), "-o", str(tmp_path / "local"))
    words = [sys.executable, "-m", "forerun.sweep", str(study), "-o", str(tmp_path / "ray"), "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    results = [(tmp_path / name / "results.parquet").read_bytes() for name in ("local", "ray")]
    assert results[0] == results[1]


def test_without_a_study_it_says_so(capsys):
    assert forerun.sweep.main(["nowhere.toml"]) == 1
    assert "nowhere.toml" in capsys.readouterr().err
