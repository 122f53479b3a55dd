"""The module says what the command says, byte for byte."""

import json

import pytest
from conftest import HARDWARE, SMALL, WORDS

import forerun


def test_compare(command, small):
    said = command("compare", str(small), SMALL, "--scheme", "asp", "--scheme", "linux-6", *WORDS, "--json")
    assert forerun.compare([small, SMALL], ["asp", "linux-6"], **HARDWARE).to_json() == said


def test_a_trace_in_memory_is_the_file_that_it_was_read_from(command, small):
    said = command("compare", str(small), "--scheme", "asp", *WORDS, "--no-bounds", "--json")
    assert forerun.compare(forerun.Trace.open(small), "asp", bounds=False, **HARDWARE).to_json() == said


def test_what_is_left_out_is_what_the_command_takes(command):
    assert forerun.compare(SMALL).to_json() == command("compare", SMALL, "--json")


def test_sim_with_its_options(command):
    words = ["--mode", "closed:4", "--drive-readahead", "off", "--failed", "1", "--seed", "7"]
    said = command("sim", SMALL, "--scheme", "asp", *WORDS, *words, "--json")
    options = {"mode": "closed:4", "drive_readahead": False, "failed": [1], "seed": 7}
    assert forerun.sim(SMALL, "asp", **HARDWARE, **options).to_json() == said


def test_seeds_are_the_command_s_runs_one_after_the_other(command):
    shape = "random:size=64MiB,requests=200"
    each = [json.loads(command("compare", shape, "--scheme", "asp", *WORDS, "--seed", seed, "--json")) for seed in "12"]
    runs = forerun.compare(shape, "asp", seeds=[1, 2], **HARDWARE)
    assert runs.runs == each[0]["runs"] + each[1]["runs"]
    assert str(runs).count("asp was") + str(runs).count("No scheme") >= 2, "a verdict for each seed"


def test_mrc_schemes_devices_info_and_patterns(command, small):
    words = ["--retention", "lru,sieve", "--cache-blocks", "10,1M"]
    rows = forerun.mrc(small, ["lru", "sieve"], cache_blocks=[10, "1M"])
    assert rows == json.loads(command("mrc", str(small), *words, "--json"))["runs"]
    assert forerun.schemes() == json.loads(command("schemes", "--json"))["schemes"]
    assert forerun.devices() == json.loads(command("device", "list", "--json"))["devices"]
    assert forerun.Device("gp3").spec == json.loads(command("device", "show", "gp3", "--json"))
    trace = forerun.Trace.open(small)
    assert trace.info() == json.loads(command("trace", "info", str(small), "--json"))
    said = command("trace", "patterns", str(small), "--by", "process", "--json")
    assert trace.patterns(by="process") == json.loads(said)


def test_a_device_is_measured_and_advice_given_as_the_command_does(command, small, tmp_path):
    measured = forerun.Device.measure(output=tmp_path / "ours.toml", model="gp3", seconds=1)
    command("device", "measure", "--model", "gp3", "--time", "1", "-o", str(tmp_path / "theirs.toml"))
    assert measured.spec == json.loads(command("device", "show", str(tmp_path / "theirs.toml"), "--json"))
    with pytest.raises(forerun.OptionError):
        forerun.Device.measure(output=tmp_path / "neither.toml")
    said = json.loads(command("advise", str(small), "--device", "gp3", "--json"))
    assert said["advice"]["effects"] and forerun.advise(small, device=forerun.Device("gp3")) == said
    in_memory = forerun.advise(forerun.Trace.open(small), device=measured, html=tmp_path / "page.html")
    assert in_memory["advice"]["effects"][0]["factor"] == 1 and "<svg" in (tmp_path / "page.html").read_text()
    with pytest.raises(forerun.OptionError):
        forerun.advise(small, device="gp4")


def test_the_command_and_the_module_are_one_version(command):
    assert command("--version").split()[1] == forerun.__version__


def test_the_table_and_the_page(command, tmp_path):
    runs = forerun.compare(SMALL, "asp", **HARDWARE)
    assert command("compare", SMALL, "--scheme", "asp", *WORDS).startswith(str(runs).split("\nAssumed")[0])
    path = tmp_path / "command.html"
    command("compare", SMALL, "--scheme", "asp", *WORDS, "--html", str(path))
    assert runs.report(tmp_path / "module.html").read_text() == path.read_text()
    assert "<iframe srcdoc=" in runs._repr_html_() and "&lt;table" in runs._repr_html_()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_no_byte(threads):
    one = forerun.compare(SMALL, ["asp", "strip"], threads=1, **HARDWARE).to_json()
    assert forerun.compare(SMALL, ["asp", "strip"], threads=threads, **HARDWARE).to_json() == one
