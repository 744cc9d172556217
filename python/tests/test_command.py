"""The `spectral` command of the wheel: the same as the bare one, whatever it is given and however it ends."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_fixtures import PATIENCE, wait_for_metrics

COMMAND = Path(sys.executable).with_name("spectral")
QUICK = ["--set", "hidden=16", "--set", "learning_starts=200", "--set", "log_frames=100"]


@pytest.fixture
def place(tmp_path):
    """Runs the command in an empty folder, which is its home too."""
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "SPECTRAL_ROMS", "XDG_DATA_HOME")}
    environment["HOME"] = str(tmp_path)

    def start(*arguments, **options):
        return subprocess.Popen(
            [COMMAND, *arguments], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )

    def run(*arguments, code=0):
        child = start(*arguments)
        out, err = (text.decode() for text in child.communicate(timeout=PATIENCE))
        assert child.returncode == code, (child.returncode, out, err)
        return out, err

    run.start = start
    run.path = tmp_path
    return run


def test_it_is_the_command(place):
    import spectral_rl

    assert place("--version")[0].split() == ["spectral", spectral_rl.__version__]
    assert "0.875" in place("decompose", "6.5")[0]
    assert "Usage: spectral" in place("--help")[0]
    assert "Usage: spectral demo" in place("demo", "--help")[0]
    place("no-such-command", code=2)
    place("train", "--task", "pogn-mini", "--dry-run", code=2)
    for command in ("eval", "report", "status"):
        place(command, "nowhere", code=2)


def test_it_is_a_module_too(place):
    module = subprocess.run([sys.executable, "-m", "spectral_rl", "tasks"], cwd=place.path, capture_output=True, check=True)
    assert module.stdout.decode() == place("tasks")[0]


def test_it_needs_nothing_but_the_native_module(place):
    code = "import sys; sys.argv = ['spectral', '--version']\n"
    code += "import spectral_rl._command as c\ntry: c.main()\nexcept SystemExit: pass\n"
    code += "slow = {'numpy', 'gymnasium', 'signal', 'enum', 're', 'inspect', 'typing'} & set(sys.modules)\n"
    code += "assert not slow, slow"
    subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(_site())!r})\n{code}"], check=True)


def _site():
    return Path(importlib.util.find_spec("spectral_rl").origin).parent.parent


def test_a_reader_that_goes_is_no_failure(place):
    child = place.start("tasks", "--json")
    child.stdout.close()
    assert child.wait(timeout=PATIENCE) == 0
    assert child.stderr.read() == b""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="SKIPPED: names of files are Unicode here")
def test_names_need_not_be_unicode(place):
    name = b"run-\xff\xfe"
    place("train", "--task", "catch-scale", "--frames", "400", *QUICK, "--out", name)
    assert os.path.exists(os.path.join(os.fsencode(place.path), name, b"run.toml"))
    assert "spectral" in place("eval", name, "--episodes", "1")[0]
    place("eval", b"nowhere-\xff", code=2)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_saved(place, kind):
    child = place.start("train", "--task", "catch-scale", "--frames", "100000000", *QUICK, "--out", "cut")
    wait_for_metrics(place.path / "cut", child)
    child.send_signal(kind)
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, err
    assert b"saving a checkpoint" in err and b"`spectral resume cut` goes on" in err
    assert 'status = "interrupted"' in (place.path / "cut/state.toml").read_text()
    assert "spectral train --task catch-scale" in (place.path / "cut/run.toml").read_text()


def test_ctrl_c_ends_what_saves_nothing(place):
    place("train", "--task", "catch-scale", "--frames", "400", "--seeds", "2", *QUICK, "--out", "run")
    (place.path / "run/agents/spectral-s2/model.safetensors").unlink()
    # A shell that runs the tests in the background has them ignore it, and Python keeps to that.
    heeded = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    child = place.start("eval", "run", "--episodes", "100000000", **heeded)
    # It says so just before it plays with the others.
    assert b"without a model, and left out: spectral-s2" in child.stderr.readline()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE)
    assert child.returncode == -signal.SIGINT


def _doctor(place):
    return json.loads(place("doctor", "--json")[0])


def test_it_finds_nvidias_compiler(place):
    if not list(_site().glob("nvidia/*/lib/libnvrtc.so.13")):
        pytest.skip("SKIPPED: nvidia-cuda-nvrtc is not installed")
    assert str(_site() / "nvidia") in _doctor(place)["cuda_compiler"]
    # Agents use the same native module; a kernel shows that what was found works.
    code = "from spectral_rl._native import compile_cuda\n"
    code += "binary = bytes(compile_cuda('extern \"C\" __global__ void k(float* x) { x[0] += 1; }', 'sm_90'))\n"
    code += "assert binary[1:4] == b'ELF', binary[:16]"
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_it_finds_the_roms_of_ale_py(place):
    if not (_site() / "ale_py/roms").is_dir():
        pytest.skip("SKIPPED: ale-py is not installed")
    out, err = place("roms", "list", "--json")
    rows = json.loads(out)
    assert rows and all(row["rom"] == "good" for row in rows)
    assert str(_site() / "ale_py" / "roms") in err
    assert any("ale_py" in roms["path"] and roms["good"] == len(rows) for roms in _doctor(place)["roms"])
    place("train", "--task", "atari/pong", "--frames", "400", "--dry-run")
