"""Pixels to phases: 30 simulated episodes with 64×64 frames are encoded, tokenized, fitted and drawn, and timed.

    python benchmarks/manipulation.py [--episodes 30] [--out FOLDER]

Prints seconds and CPU seconds of the simulation and of `reproduce bridge --quick` with the pixel encoder. The aim is
ten minutes on two cores, with the filmstrip drawn. Nothing is taken from a cache: the data go into a fresh folder.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

LIMIT = 600


def cpu_seconds() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["PRISM_DATA"] = temporary
        from prism_irl.cli.reproduce import import_script

        bridge, PickAndPlace = import_script("bridge.run"), import_script("worlds.manipulation").PickAndPlace

        out = arguments.out or Path(temporary) / "run"
        out.mkdir(parents=True, exist_ok=True)
        settings = replace(
            bridge.Bridge.of(None, quick=True), n_episodes=arguments.episodes, frames=True, encoder="pixels"
        )
        clock, cpu = time.perf_counter(), cpu_seconds()
        PickAndPlace().dataset(settings.n_episodes, seed=settings.simulation_seed, frames=True)
        simulated = time.perf_counter() - clock, cpu_seconds() - cpu
        result = bridge.run(settings, out)
        total = time.perf_counter() - clock, cpu_seconds() - cpu
        strips = sorted(path.name for path in (out / "figures").glob("filmstrip_*.png"))
        print(f"simulation and rendering  {simulated[0]:7.1f} s  {simulated[1]:7.1f} s CPU")
        print(f"whole pipeline            {total[0]:7.1f} s  {total[1]:7.1f} s CPU  (aim: {LIMIT} s on two cores)")
        print(f"{result['n_steps']} frames; {', '.join(strips) or 'no filmstrip'}")
        for name, entry in result["methods"].items():
            print(f"  {name:32s} accuracy {entry['label_accuracy']['mean']:.3f}  ARI {entry['ari']['mean']:.3f}")
        if not strips:
            raise SystemExit("No filmstrip was drawn.")


if __name__ == "__main__":
    main()
