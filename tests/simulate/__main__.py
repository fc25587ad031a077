"""Runs `make simulate`: simulates a bridge with faults by a seed, and prints the figures as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from tests.simulate import clock

_FIXED = {"PYTHONHASHSEED": "0", "SSL_CERT_FILE": os.devnull}  # to read all authorities takes each start 20 ms


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if no promise broke."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", help="several seeds instead, such as 1-20")
    parser.add_argument("--faults", choices=("none", "all"), default="all")
    parser.add_argument("--seconds", type=float, default=60.0, help="of virtual time, in which load and faults come")
    parser.add_argument("--plan", help="simulate this plan instead, in JSON, as --shrink prints it")
    parser.add_argument(
        "--planted", nargs="*", help="look for these planted defects among the seeds, or for all that are found"
    )
    parser.add_argument("--shrink", action="store_true", help="make the plan of a failing seed smaller")
    parser.add_argument("--jobs", type=int, default=0, help="simulations at the same time; 0: one for each core")
    options = parser.parse_args(arguments)
    clock.install()
    # Their modules import the clock's functions by name.
    from tests.explore.planted import PLANTED  # noqa: PLC0415
    from tests.simulate.plan import Plan  # noqa: PLC0415
    from tests.simulate.seeds import search, shrink, simulate  # noqa: PLC0415

    first, _, last = (options.seeds or str(options.seed)).partition("-")
    faults = () if options.faults == "none" else None
    seeds = range(int(first), int(last or first) + 1)
    plans = [Plan(seed=seed, seconds=options.seconds, faults=faults) for seed in seeds]
    if options.plan:
        plans = [Plan.read(json.loads(options.plan))]
    planted = options.planted
    defects = [one for one in PLANTED if planted is not None and (one.name in planted if planted else one.simulated)]
    if options.shrink:
        found = shrink(plans[0], *defects[:1])
    elif planted is not None:
        found = search(defects, plans, options.jobs)
    else:
        found = simulate(plans, options.jobs)
    print(json.dumps(found, indent=2))
    return int(bool(found.get("broken")))


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in _FIXED.items()):
        settings = {name: value for name, value in os.environ.items() if not name.startswith("BRIDGE_")}
        module = [sys.executable, "-m", "tests.simulate", *sys.argv[1:]]
        os.execve(sys.executable, module, settings | _FIXED)
    sys.exit(main(sys.argv[1:]))
