"""Two figures of pivot selection: the memory that it takes, and what one engine's prefix cache saves.

    python tools/bench_selection.py rows --rows 1000000 --folder FOLDER
    python tools/bench_selection.py prefix --model pivotrl/demo/base [--trajectories FILE...] [--engines E...]

`rows` streams synthetic rows through the real reading, selection, log and sampling, with an engine that answers at
once in place of vLLM, and prints the peak of the process's memory after each stage. `prefix` gives the same turns to a
real engine in the order in which E engines would get them: by trajectory, as a selection does, and turn by turn, each
to the next engine. It prints how many prompt tokens had to be computed, each turn's samples included.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import run_alone

BATCH = 64
"""Pivots of a training step."""
TURNS_OF_A_TRAJECTORY = 8
AGENT = "single_step_tool_use_with_argument_comparison_agent"


def synthetic_rows(count: int) -> Iterator[dict[str, Any]]:
    """NeMo-Gym rows, one turn each, eight to a trajectory, about 700 bytes each."""
    function = {"type": "function", "name": "get_order", "parameters": {"type": "object", "properties": {}}}
    history = [{"role": "system", "content": "You are the desk of a shop. " * 8}]
    for index in range(count):
        trajectory, turn = divmod(index, TURNS_OF_A_TRAJECTORY)
        asked = {"role": "user", "content": f"Where is order A-{index}? " + "I asked before. " * turn}
        action = {"type": "function_call", "name": "get_order", "arguments": json.dumps({"order_id": f"A-{index}"})}
        yield {
            "responses_create_params": {"input": [*history, asked], "tools": [function]},
            "expected_action": action,
            "agent_ref": {
                "type": "responses_api_agents",
                "name": AGENT,
            },
            "trajectory_id": trajectory,
            "meta_info": {"turn": turn},
        }


class InstantEngine:
    """Answers from the request's seed: some calls are the expert's kind, some are talk."""

    rank, world_size, engines, engine_index, object_group = 0, 1, 1, 0, None

    def reset_prefix_cache(self) -> None:
        pass

    def generate(self, requests: list[Any], finished: Callable[[int, list[Any]], None]) -> None:
        from pivotrl.rollout.records import Sample

        for number, request in enumerate(requests):
            noise = random.Random(request.seed)
            share = noise.choice([0.0, 0.0, 0.3, 1.0])
            good = [noise.random() < share for _ in range(request.first + request.n)][request.first :]
            finished(number, [Sample([int(one)], [0.0], "stop") for one in good])


class WordTemplate:
    """A token is a word; a completion is one token, which is right or wrong."""

    hash = "bench"

    def encode(self, messages: list[dict[str, Any]], tools: list[Any]) -> list[int]:
        return [len(word) for message in messages for word in message["content"].split()]

    def decode(self, token_ids: list[int]) -> str:
        return "call" if token_ids[0] else "talk"


class WordParser:
    def parse(self, text: str, tools: list[Any]) -> list[dict[str, Any]]:
        if text == "call":
            return [{"type": "function_call", "name": "get_order", "arguments": "{}"}]
        return [{"type": "message", "content": "ok"}]


def rows(options: argparse.Namespace) -> None:
    from pivotrl.config import parse_config
    from pivotrl.pivots.sampler import PivotSampler
    from pivotrl.pivots.selection import select_pivots
    from pivotrl.trajectories.store import write_jsonl

    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "rows.jsonl"
    if not file.exists():
        write_jsonl(file, synthetic_rows(options.rows))
    tree = {
        "output": str(folder),
        "model": {"path": "none"},
        "trajectories": {"files": [str(file)], "format": "nemo_gym"},
        "verifier": {"name": "name_only", "workers": 0},
        "pivots": {"samples": 2, "chunk": 64, "keep": "all"},
        "rollout": {"max_model_len": 4096},
    }
    config = parse_config(tree, "bench")
    stages: dict[str, dict[str, float]] = {}

    def stage(name: str, started: float) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        stages[name] = {"seconds": round(time.perf_counter() - started, 1), "peak_mib": round(peak, 1)}
        print(f"{name:10} {stages[name]['seconds']:>9,.1f} s   peak {peak:>8,.1f} MiB", flush=True)

    stage("start", time.perf_counter())
    started = time.perf_counter()
    summary = select_pivots(config, InstantEngine(), WordParser(), WordTemplate(), folder / "pivots")
    stage("select", started)
    started = time.perf_counter()
    sampler = PivotSampler.from_folder(folder / "pivots", BATCH, 0)
    seen = {pivot.id for step in range(options.steps) for pivot in sampler.batch(step)}
    stage("sample", started)
    counts = {key: summary[key] for key in ("rows", "candidates", "pivots", "heldout_turns")}
    print(json.dumps(counts | {"sampled": len(seen), "stages": stages}))


def prefix(options: argparse.Namespace) -> None:
    import tempfile

    from pivotrl.config import parse_config
    from pivotrl.demo.trajectories import write
    from pivotrl.pivots.candidates import candidates, survey, units
    from pivotrl.rollout.config import RolloutConfig
    from pivotrl.rollout.engine import Engine
    from pivotrl.rollout.records import Request
    from pivotrl.trajectories.template import ChatTemplate

    with tempfile.TemporaryDirectory() as folder:
        files = options.trajectories or [f"{folder}/desk.jsonl"]
        if not options.trajectories:
            write(Path(files[0]), options.tasks, 1)
        tree = {"output": folder, "model": {"path": options.model}, "trajectories": {"files": files}}
        config = parse_config(tree, "bench")
        template = ChatTemplate(options.model, None)
        turns = list(candidates(config, survey(config)))
        engine = Engine(RolloutConfig(max_model_len=1024, kv_cache_gib=1), options.model, "float32", 0)
    prompts = {turn.id: template.encode(turn.messages, turn.tools) for turn in turns}
    computed = count_prefill(engine)

    def tokens_of(groups: list[list[Any]]) -> int:
        """Prompt tokens computed for groups that are sampled one after the other, each from an empty cache."""
        before = computed["tokens"]
        for group in groups:
            engine.reset_prefix_cache()
            engine.generate([Request(prompts[turn.id], options.samples, 0, 1.0, 1.0, 1) for turn in group])
        return computed["tokens"] - before

    whole = [unit.turns for unit in units(iter(turns), options.chunk)]
    asked = sum(len(ids) for ids in prompts.values())
    print(
        f"{len(turns)} turns, {asked:,} prompt tokens, {options.samples} samples each, {options.chunk} turns at a time"
    )
    by_trajectory = tokens_of(whole)
    print(f"by trajectory                {by_trajectory:>9,} computed, {by_trajectory / asked:.1%} of the prompts")
    for engines in options.engines:
        shares = [turns[first::engines] for first in range(engines)]
        groups = [share[at : at + options.chunk] for share in shares for at in range(0, len(share), options.chunk)]
        found = tokens_of(groups)
        print(
            f"turn by turn, {engines:>3} engines    {found:>9,} computed, {found / asked:.1%} of the prompts: "
            f"{found / by_trajectory:.2f} times as many"
        )


def count_prefill(engine: Any) -> dict[str, int]:
    """Sum the prompt tokens that vLLM's core computes from now on, under `tokens`."""
    core, total = engine.llm.llm_engine.engine_core, {"tokens": 0}
    get_output = core.get_output

    def counted() -> Any:
        output = get_output()
        stats = [one.prefill_stats for one in output.outputs if one.prefill_stats is not None]
        total["tokens"] += sum(one.num_computed_tokens for one in stats)
        return output

    core.get_output = counted
    return total


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    memory = commands.add_parser("rows", help="memory against the number of rows")
    memory.add_argument("--rows", type=int, default=1_000_000)
    memory.add_argument("--steps", type=int, default=200, help=f"training steps of {BATCH} pivots that are sampled")
    memory.add_argument("--folder", required=True, help="for the rows and the selection; its rows are used again")
    memory.set_defaults(work=rows)
    cache = commands.add_parser("prefix", help="prompt tokens computed, by trajectory and turn by turn")
    cache.add_argument("--model", required=True, help="a Hugging Face folder")
    cache.add_argument("--trajectories", nargs="+", metavar="FILE", help="default: the demo's expert")
    cache.add_argument("--tasks", type=int, default=60, help="trajectories of the demo's expert")
    cache.add_argument("--engines", type=int, nargs="+", default=[2, 4, 8, 32])
    cache.add_argument("--samples", type=int, default=4)
    cache.add_argument("--chunk", type=int, default=64, help="pivots.chunk")
    cache.set_defaults(work=prefix)
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    return run_alone("tools/bench_selection.py", lambda: options.work(options))


if __name__ == "__main__":
    sys.exit(main())
