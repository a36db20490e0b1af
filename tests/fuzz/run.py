"""Ten thousand bad inputs: `make fuzz`, or python tests/fuzz/run.py --cases 10000 --seed 0 --jobs 2.

Every case has a number; case N of seed S is the same everywhere: python tests/fuzz/run.py --seed S --only N. Cases run
in processes of their own, so that a signal, a hang or memory that never ends is found, too, and named. Some kinds of
cases alone, with numbers of their own: python tests/fuzz/run.py --kinds labels,patterns.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "reproduce")]
ENVIRONMENT = {"PRISM_THREADS": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
"""Of a fuzzing process and its workers; not of a test that imports this file."""
SECONDS = 60
BYTES = 2 * 10**9
"""Memory that a case may take beyond what its process has, and bytes of a file that it may write."""


class SlowError(BaseException):
    """A case took too long; not an Exception, so that nobody catches it on the way."""


def choose(seed: int, number: int, kinds: Sequence[str] = ()) -> tuple[str, random.Random]:
    """Target and randomness of one case, of all kinds or of some."""
    from targets import TARGETS

    rng = random.Random(f"{seed} {number}")
    names = list(kinds or TARGETS)
    return rng.choices(names, [TARGETS[name][0] for name in names])[0], rng


def run_case(corpus: Any, seed: int, number: int, folder: Path, kinds: Sequence[str] = ()) -> str | None:
    """Make one case; returns what is wrong with it."""
    from targets import TARGETS, WrongError

    target, rng = choose(seed, number, kinds)
    place = folder / str(number)
    place.mkdir()

    def too_slow(*_: Any) -> None:
        raise SlowError

    before = _resident("VmRSS")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of this case
    signal.signal(signal.SIGPROF, too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of computing: a busy machine is no fault of a case
    try:
        with contextlib.chdir(place):  # a folder whose name is only odd is a folder like any other
            TARGETS[target][1](corpus, rng, place)
    except SlowError:
        return f"{target}: longer than {SECONDS} s"
    except WrongError as error:
        return f"{target}: {error}"
    except Exception as error:
        return f"{target}: {error!r} at {traceback.format_exc().strip().splitlines()[-3].strip()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        _remove(place)
    used = _resident("VmHWM") - before
    return f"{target}: {used / 1e9:.1f} GB of memory" if used > BYTES else None


def _resident(what: str) -> int:
    """Bytes of memory of this process, now (VmRSS) or at most (VmHWM); 0 where nothing says it."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(what)).split()[1])
    return 0


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def work(seed: int, numbers: list[int], folder: str, results: Any, kinds: Sequence[str]) -> None:
    """A process that makes cases and says of each that it begins and how it ended."""
    from targets import Corpus

    with tempfile.TemporaryDirectory(dir=folder) as own:
        corpus_folder, cases = Path(own) / "corpus", Path(own) / "cases"
        corpus_folder.mkdir()
        cases.mkdir()
        corpus = Corpus(corpus_folder)
        resource.setrlimit(resource.RLIMIT_AS, (_virtual() + 3 * BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (BYTES, BYTES))
        for number in numbers:
            results.put((number, "begins"))
            said = run_case(corpus, seed, number, cases, kinds)
            results.put((number, said))
            if said is not None and ("longer than" in said or "memory" in said):
                return  # what was interrupted, a compiler say, may not be whole; the others go on in a new process


def _virtual() -> int:
    """Bytes of address space that this process has."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def _computed(process: int) -> float:
    """Seconds that a process has computed; 0 where nothing says it."""
    with contextlib.suppress(OSError):
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _hangs(seconds: float, computed: float) -> bool:
    """Whether a case waits for ever, or is in compiled code, where no alarm is heard; a busy machine may be slow."""
    return computed > 2 * SECONDS or seconds > (5 if computed < 0.01 * seconds else 30) * SECONDS


def fuzz(seed: int, cases: int, jobs: int, kinds: Sequence[str] = (), first: int = 0) -> dict[int, str]:
    """Run all cases; returns what is wrong, by number."""
    context = multiprocessing.get_context("spawn")
    wrong: dict[int, str] = {}
    left, done = list(range(first, first + cases)), Counter[str]()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="prism-fuzz-") as folder:
        while left:
            parts = [left[i::jobs] for i in range(jobs) if left[i::jobs]]
            running = []
            for part in parts:
                queue = context.SimpleQueue()
                process = context.Process(target=work, args=(seed, part, folder, queue, kinds), daemon=True)
                process.start()
                running.append((process, queue, part))
            for process, queue, part in running:
                current, since, had = None, time.monotonic(), 0.0
                while process.is_alive() or not queue.empty():
                    if queue.empty():
                        spent = _computed(process.pid or 0) - had
                        if current is not None and _hangs(time.monotonic() - since, spent):
                            process.kill()
                            wrong[current] = f"{choose(seed, current, kinds)[0]}: hangs"
                            break
                        time.sleep(0.05)
                        continue
                    number, said = queue.get()
                    since, had = time.monotonic(), _computed(process.pid or 0)
                    if said == "begins":
                        current = number
                        continue
                    current = None
                    part.remove(number)
                    done[choose(seed, number, kinds)[0]] += 1
                    if done.total() % 1000 == 0:
                        print(f"{done.total():,} cases in {time.monotonic() - began:.0f} s", flush=True)
                    if said is not None:
                        wrong[number] = said
                        print(f"case {number}: {said}", flush=True)
                process.join()
                if current is not None:
                    part.remove(current)
                    wrong.setdefault(current, f"{choose(seed, current, kinds)[0]}: ended by {process.exitcode}")
                    print(f"case {current}: {wrong[current]}", flush=True)
                elif process.exitcode:
                    raise SystemExit(f"The fuzzer itself failed with {process.exitcode}.")
            left = sorted(number for _, _, part in running for number in part)
    seconds = time.monotonic() - began
    counted = ", ".join(f"{name} {n}" for name, n in sorted(done.items()))
    print(f"seed {seed}: {cases} cases in {seconds:.0f} s ({counted}); {len(wrong)} wrong")
    return wrong


def main() -> int:
    """Exit code 1 where anything is wrong."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="one case, in this process, with its stack trace")
    parser.add_argument("--kinds", default="", help="kinds of cases, with commas between them; all by default")
    options = parser.parse_args()
    from targets import TARGETS, Corpus

    kinds = [kind for kind in options.kinds.split(",") if kind]
    if unknown := [kind for kind in kinds if kind not in TARGETS]:
        parser.error(f"there are no cases of {unknown[0]!r}, but of {', '.join(TARGETS)}")
    if options.only is None:
        return int(bool(fuzz(options.seed, options.cases, options.jobs, kinds, options.first)))

    with tempfile.TemporaryDirectory(prefix="prism-fuzz-") as folder:
        for name in ("corpus", "case"):
            (Path(folder) / name).mkdir()
        target, rng = choose(options.seed, options.only, kinds)
        print(target)
        TARGETS[target][1](Corpus(Path(folder) / "corpus"), rng, Path(folder) / "case")
    return 0


if __name__ == "__main__":
    sys.exit(main())
