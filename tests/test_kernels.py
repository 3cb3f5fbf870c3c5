"""The compiled kernels: one chain and one list of policies, fresh code, checked indices, the same bytes everywhere."""

import ast
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import naive
import numba
import numpy as np
import pytest
from cases import GOLDEN
from numba.core.errors import TypingError
from replaying import inside_engine, rows_of_run, rows_of_twin, through_engine, through_twin
from strategies import MODEL, Problem

from btbench import jit
from btbench.cluster.gpus import Gpu
from btbench.cluster.setup import Replica, ServingOptions, Setup
from btbench.policies import picks, router
from btbench.policies.parameters import BtbParameters, Parameters
from btbench.policies.registry import KINDS, NAMES
from btbench.policies.view import ClusterView, Draws

TESTS = Path(__file__).parent
REPLAY_MODULE = sys.modules["btbench.engine.replay"]


def test_the_chain_and_the_list_of_policies_agree():
    """A policy's number is its place in the list; the paper's come first, since one branch tells them from the rest."""
    assert [getattr(router, name.upper()) for name in NAMES] == list(range(len(NAMES)))
    assert [kind.is_papers for kind in KINDS] == sorted((kind.is_papers for kind in KINDS), reverse=True)


def test_draws_are_those_of_cpython():
    """`choose` over 1 to 200 candidates, again and again, consumes what `random.Random.choice` consumes."""
    choose = numba.njit(lambda draws, n: picks.choose(draws, n))  # a step of a kernel has no entry of its own
    for seed in (0, 42):
        expected = random.Random(seed)
        draws = Draws(REPLAY_MODULE.twister_outputs(seed, 40_000), np.zeros(1, np.int64))
        for n in [*range(1, 201), *[1] * 1000, *[3] * 1000, *[128] * 500, *[129] * 500]:
            assert choose(draws, n) == expected.choice(range(n))
        assert draws.used[0] < len(draws.outputs)


def toys(replicas: int) -> Setup:
    gpu = Gpu("toy", 3e13, 3e11, MODEL.weight_bytes + MODEL.kv_bytes_per_token * 2000, 1e7, 1e7, 1e7)
    return Setup("toys", MODEL, tuple(Replica(f"node{i}", gpu, 1) for i in range(replicas)))


def test_draws_and_copies_never_run_out(monkeypatch):
    """Room for them is a guess that is doubled until it suffices; the result does not show it."""
    prompts = [tuple(f"p{i}x{k}" for k in range(4)) for i in range(20)] * 2
    requests = tuple(naive.Request(0.5 * i, 32, 1, blocks) for i, blocks in enumerate(prompts))
    rule = BtbParameters(threshold=1, prefix_blocks=4, window_s=100.0, copies=200)
    problem = Problem(requests, toys(130), ServingOptions(), Parameters(btb=rule), 42)
    expected = rows_of_twin(through_twin(problem, "btb"))
    assert len(expected["copies"]) == 20 * 129
    guesses = []
    made = REPLAY_MODULE.twister_outputs
    monkeypatch.setattr(
        REPLAY_MODULE, "twister_outputs", lambda seed, count: guesses.append(count) or made(seed, max(1, count // 64))
    )
    assert rows_of_run(through_engine(problem, "btb")) == expected
    assert len(set(guesses)) > 2


def test_a_policy_cannot_write_what_it_looks_at():
    """Writing to an array of the view does not compile; writing to a field of a record fails when interpreted."""
    requests = (naive.Request(0.0, 8, 1, ("a",)), naive.Request(1.0, 8, 1, ("a",)))
    state, view = inside_engine(Problem(requests, toys(2), ServingOptions(), Parameters(), 42), "btb")

    @numba.njit
    def write(array):
        array[:] = 0

    for name in ClusterView._fields:
        array = getattr(view, name)
        if isinstance(array, np.recarray):
            with pytest.raises(ValueError, match="read-only"):
                array[array.dtype.names[0]][:] = 0
        elif isinstance(array, np.ndarray):
            with pytest.raises(TypingError):
                write(array)
    write(state.load)  # which the engine may


def test_the_view_has_no_length_of_an_answer():
    hidden = {"output_tokens", "own_blocks", "finish_s", "last_step", "used_tokens", "steps", "batch_root"}
    requests = (naive.Request(0.0, 8, 1),)
    _, view = inside_engine(Problem(requests, toys(2), ServingOptions(), Parameters(), 42), "btb")
    seen = set(ClusterView._fields)
    for array in view:
        seen.update(getattr(array, "dtype", np.dtype(float)).names or ())
    assert "input_tokens" in seen
    assert not seen & hidden


def test_an_edited_kernel_is_compiled_again(tmp_path, monkeypatch):
    """The kernel cache is named by every source that takes part, wherever it lies."""
    for source in jit.kernel_sources():
        copy = tmp_path / source.relative_to(jit.PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    before = jit.sources_digest()
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    assert jit.sources_digest() == before
    sources = jit.kernel_sources()
    assert {"clock.py", "cache.py", "btb.py", "runs.py", "jit.py"} <= {path.name for path in sources}
    for source in sources:
        text = source.read_text()
        source.write_text(text.replace("return", "return ", 1) + "\n# edited\n")
        assert jit.sources_digest() != before, source
        source.write_text(text)
    assert jit.sources_digest() == before


def constants_read(source: Path) -> set[tuple[str, str]]:
    """(module of btbench, name) of the constants that a file imports."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("btbench.")
        for alias in node.names
        if alias.name.lstrip("_").isupper()
    }


def test_constants_of_kernels_lie_in_files_that_name_the_cache():
    """A constant is compiled in, so a change of its file has to change the cache folder too."""
    counted = set(jit.kernel_sources())
    for source in counted:
        tree = ast.parse(source.read_text())
        kernels = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and any(getattr(d, "id", "") in ("kernel", "lean_kernel", "inlined") for d in node.decorator_list)
        ]
        used = {n.id for kernel in kernels for n in ast.walk(kernel) if isinstance(n, ast.Name)}
        for module, name in constants_read(source):
            home = jit.PACKAGE.parent / Path(*module.split(".")).with_suffix(".py")
            assert name not in used or home in counted, f"{source.name} reads {name} of {module}"


def run_tests(tmp_path: Path, variable: str, names: str) -> str:
    """A few replays in a process of its own, with a Numba switch thrown; what pytest says."""
    environment = {**os.environ, variable: "1", "BTBENCH_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "pytest", str(TESTS / "test_twin.py"), str(TESTS / "test_laws.py"), "-k", names]
    command += ["--hypothesis-profile", "few", "-W", "ignore:overflow encountered:RuntimeWarning"]
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


TWIN_TESTS = "any_replay or single_blocks or full_caches or token_budget"


def test_no_index_lies_outside_its_array(tmp_path):
    """Numba reads past the end of an array without a word, unless told to look."""
    assert "4 passed" in run_tests(tmp_path, "NUMBA_BOUNDSCHECK", TWIN_TESTS)


def test_kernels_do_the_same_interpreted(tmp_path):
    """And no policy writes to what it sees: to a field of a record that compiles, but interpreted it is an error."""
    names = f"{TWIN_TESTS} or built_in_policy"
    assert f"{4 + len(NAMES)} passed" in run_tests(tmp_path, "NUMBA_DISABLE_JIT", names)


def test_checked_code_has_a_cache_of_its_own():
    """Else Numba would load unchecked code from the disk, and the check above would check nothing."""
    print_folder = "from btbench import jit; print(jit.CACHE_FOLDER)"
    folders = {
        subprocess.run(
            [sys.executable, "-c", print_folder],
            env={**os.environ, "NUMBA_BOUNDSCHECK": checked},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for checked in ("0", "1")
    }
    assert len(folders) == 2


def result_bytes(folder: Path) -> dict[str, bytes | list]:
    """What a result folder says, but for how long it took and how it was asked for."""
    rows = json.loads((folder / "summary.json").read_text())["rows"]
    for row in rows:
        assert row.pop("engine_s") > 0
        assert row.pop("requests_per_s") > 0
    files = {name: (folder / name).read_bytes() for name in ("requests.parquet", "copies.parquet", "table.md")}
    return {**files, "summary": rows}


def test_the_same_bytes_in_any_process_with_any_number_of_jobs(tmp_path):
    results = []
    for hash_seed, jobs in (("1", "1"), ("2", "3")):
        out = tmp_path / hash_seed
        scenario = GOLDEN / "two-windows" / "scenario.toml"
        command = [sys.executable, "-c", "from btbench.cli.app import main; main()", "replay", str(scenario)]
        done = subprocess.run(
            [*command, "--out", str(out), "--jobs", jobs, "--no-charts"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        results.append({"stdout": done.stdout.replace(str(out).encode(), b""), **result_bytes(out)})
    assert results[0] == results[1]
    assert b"btb" in results[0]["stdout"]


def test_a_damaged_kernel_cache_is_made_again(tmp_path):
    """Files cut short by a full disk or a power cut cost one compilation, not every command from then on."""
    code = (
        "import numpy as np; from btbench.runs import join_runs; "
        "print(join_runs(np.array([0, 1], np.int32), np.array([0, 2]), np.ones(2, np.int32), np.zeros(1, np.int32)))"
    )
    environment = os.environ | {"BTBENCH_CACHE": str(tmp_path)}

    def run() -> str:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    first = run()
    for suffix, content in ((".nbi", b"cut"), (".nbc", b"")):
        files = sorted(tmp_path.rglob(f"*{suffix}"))
        assert files
        for file in files:
            file.write_bytes(content)
        assert run() == first
