"""What a run needs, before any GPU is asked for: memory of each phase, seconds of a step, layouts that fit.

  python tools/plan.py --config configs/qwen3_30b_a3b.yaml
  python tools/plan.py --config configs/qwen3_30b_a3b.yaml --nodes 2 --gpu h200 --layouts rollout.kv_cache_gib=12
  python tools/plan.py --config configs/qwen3_30b_a3b.yaml --json parallel.expert=16
  python tools/plan.py refit --config configs/qwen3_30b_a3b.yaml rollout.tensor=8 rollout.expert_parallel=true

The word `refit`, first, asks what a refit moves over which links, and for nothing else. Computed from the configuration
and the model's sizes, on any machine. Weights, gradients, optimizer and activations of the same formulas were held
against real models on a CPU; nothing was measured on a GPU, and the report prints what it assumes. Exit code: 0; 1
where the run fits none of the GPUs asked for; 2 where it cannot work on any.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import run_alone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="YAML file of the run")
    parser.add_argument("--nodes", type=int, help="nodes (default: what the file's head says, N nodes of M; else 4)")
    parser.add_argument("--gpus-per-node", type=int, metavar="N", help="GPUs of a node (default: the same; else 8)")
    parser.add_argument("--gpu", choices=("h100", "h200"), help="one kind of GPU (default: both)")
    parser.add_argument("--layouts", action="store_true", help="rank other layouts of the same GPUs by their step time")
    parser.add_argument("--hf", metavar="FOLDER", help="Hugging Face folder whose config.json to read for the sizes")
    parser.add_argument(
        "--prompt-tokens", type=int, metavar="N", help="mean prompt (default: the run's pivots, or 4500)"
    )
    parser.add_argument("--response-tokens", type=int, metavar="N", help="mean response (default 1000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="laid over the file")
    of_refit = sys.argv[1:2] == ["refit"]
    arguments = parser.parse_intermixed_args(sys.argv[1 + of_refit :])  # options may stand among the overrides
    fits = False

    def work() -> None:
        nonlocal fits
        from pivotrl.planning import report
        from pivotrl.planning.command import find, refit_table

        if of_refit:
            fits = True
            print(refit_table(arguments))
            return
        found = find(arguments)
        fits = any(found.plan.fits(cluster.gpu) for cluster in found.clusters)
        print(json.dumps(report.as_json(found), indent=1) if arguments.json else report.text(found))

    code = run_alone("plan", work)
    return code or int(not fits)


if __name__ == "__main__":
    sys.exit(main())
