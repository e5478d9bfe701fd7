"""How much faster and smaller one training pass is when a group's prompt is trained once.

    python tools/bench_prompt_once.py --prompt 1024 --response 64 --group 16
    python tools/bench_prompt_once.py --prompt 4096 --response 256 --group 16 --repeats 1      (minutes on a CPU)

Forward and backward of one group by the trainer itself (`Policy.gradients`), on a random Mixture-of-Experts model: the
prompt once, and plain in two forms, all samples in one packed row and every sample in a micro-batch of its own. Model
and data are the same, the forms take turns in one process, and the head runs on response tokens only in all of them.
Where other processes want the same cores, the ratio of processor time says more than that of the clock.
Peak memory is what a process of its own, one for each form, needs beyond what it held before the pass.

Bounds: tokens = trunk tokens of the plain form over those of the prompt-once form; FLOPs = the same of the arithmetic
that the algorithm needs, forward and backward (`policy/cost.py`), which attention and the head hold below the first at
long rows. Neither is a promise: kernels run at different shares of the peak at different shapes.
"""

import argparse
import ctypes
import dataclasses
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

FORMS = {"prompt once": ("prompt_once", 2**30), "plain, one row": ("plain", 2**30), "plain, row by row": ("plain", 1)}
"""Name -> training.packing and training.micro_batch_tokens."""
LARGEST_DIFFERENCE = 1e-5
"""Of the gradients in float32, relative."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt", type=int, default=1024, help="tokens of the prompt (default 1024)")
    parser.add_argument("--response", type=int, default=64, help="tokens of each response (default 64)")
    parser.add_argument("--group", type=int, default=16, help="responses to the prompt (default 16)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each form (default 3)")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU (default 1)")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--top-k", type=int, default=2)
    parser.add_argument("--expert-ffn", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="float32 on a CPU, bfloat16 on a GPU")
    parser.add_argument("--forms", nargs="*", choices=list(FORMS), default=list(FORMS), help="default: all three")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    parser.add_argument("--peak-of", nargs=2, metavar=("FORM", "MODEL"), help=argparse.SUPPRESS)
    return parser.parse_args()


def write_model(arguments: argparse.Namespace, folder: Path) -> None:
    """A Hugging Face folder of a random Qwen3-MoE model, whose routers spread their choices."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    config = transformers.Qwen3MoeConfig(
        vocab_size=arguments.vocab,
        hidden_size=arguments.hidden,
        intermediate_size=arguments.hidden,
        moe_intermediate_size=arguments.expert_ffn,
        num_hidden_layers=arguments.layers,
        num_attention_heads=arguments.heads,
        num_key_value_heads=arguments.kv_heads,
        head_dim=arguments.head_dim,
        num_experts=arguments.experts,
        num_experts_per_tok=arguments.top_k,
        norm_topk_prob=True,
        max_position_embeddings=arguments.prompt + arguments.response,
    )
    torch.manual_seed(0)
    model = transformers.Qwen3MoeForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0, 0.2 if "mlp.gate.weight" in name else 0.05)
    model.save_pretrained(folder)


def make_policy(arguments: argparse.Namespace, folder: str):
    import torch

    from pivotrl.config import parse_config
    from pivotrl.policy import device
    from pivotrl.policy.parallel import initialize
    from pivotrl.policy.step import Policy

    torch.set_num_threads(arguments.threads)
    dtype = arguments.dtype or ("float32" if device.current().kind == "cpu" else "bfloat16")
    config = parse_config({"output": "unused", "model": {"path": folder, "dtype": dtype}}, "bench")
    return Policy(config, initialize(config.parallel, 0))


def make_samples(arguments: argparse.Namespace, prompt: int, response: int, group: int) -> list:
    import torch

    from pivotrl.policy.packing import Sample

    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(arguments.vocab, (prompt + group * response,), generator=draw).tolist()
    advantages = torch.randn(group, generator=draw).tolist()
    responses = (ids[prompt + i * response : prompt + (i + 1) * response] for i in range(group))
    return [Sample(ids[:prompt], r, [-9.0] * response, a) for r, a in zip(responses, advantages, strict=True)]


def run(policy, form: str, samples: list) -> dict[str, float]:
    """One pass in that form; its metrics. The gradient is left in the parameters."""
    packing, budget = FORMS[form]
    changed = policy.config.training.model_copy(update={"packing": packing, "micro_batch_tokens": budget})
    policy.config = policy.config.model_copy(update={"training": changed})
    return policy.gradients(samples, denominator=float(sum(len(sample.response_ids) for sample in samples)))


def timed(policy, form: str, samples: list) -> tuple[float, float, dict]:
    """Seconds by the clock and of this process's processors, and the metrics."""
    import torch

    from pivotrl.policy import device

    wait = torch.cuda.synchronize if device.current().kind == "cuda" else lambda: None
    wait()
    start, start_cpu = time.perf_counter(), time.process_time()
    metrics = run(policy, form, samples)
    wait()
    return time.perf_counter() - start, time.process_time() - start_cpu, metrics


def peak_bytes(policy, form: str, samples: list) -> int:
    """The most memory that a pass holds beyond what lay there before it."""
    import torch

    from pivotrl.policy import device

    if device.current().kind == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run(policy, form, samples)
        return torch.cuda.max_memory_allocated() - before

    def resident(kind: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(kind)).split()[1])

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator kept from making the model is no memory of the pass
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far (proc(5))
    before = resident("VmRSS")
    run(policy, form, samples)
    return resident("VmHWM") - before


def warm_up(policy, arguments: argparse.Namespace) -> None:
    small = make_samples(arguments, 16, 4, 2)
    for form in arguments.forms:
        run(policy, form, small)


def peak_apart(form: str, folder: str) -> int:
    """`peak_bytes` in a process that did nothing before."""
    command = [sys.executable, __file__, *sys.argv[1:], "--peak-of", form, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the process that measures the memory of {form!r} failed:\n{done.stderr[-4000:]}")
    return int(done.stdout.splitlines()[-1])


def gradient_differences(grads: dict, reference: dict) -> tuple[float, float]:
    """Norm of the difference over the norm: the largest of any parameter, and of all together."""
    worst = max(((grads[n] - g).norm() / g.norm()).item() for n, g in reference.items() if g.norm() > 0)
    total = sum((grads[name] - g).double().square().sum() for name, g in reference.items())
    return worst, (total / sum(g.double().square().sum() for g in reference.values())).sqrt().item()


def bench(arguments: argparse.Namespace, folder: str) -> dict:
    from pivotrl.policy.cost import Cost, trunk_tokens

    policy = make_policy(arguments, folder)
    samples = make_samples(arguments, arguments.prompt, arguments.response, arguments.group)
    warm_up(policy, arguments)
    seconds: dict[str, list[float]] = {form: [] for form in arguments.forms}
    processor: dict[str, list[float]] = {form: [] for form in arguments.forms}
    grads, losses = {}, {}
    for repeat in range(arguments.repeats):
        for form in arguments.forms if repeat % 2 == 0 else reversed(arguments.forms):
            taken, used, metrics = timed(policy, form, samples)
            seconds[form].append(taken)
            processor[form].append(used)
            losses[form] = metrics["loss"]
            grads[form] = {name: p.main_grad.clone() for name, p in policy.model.named_parameters()}
    prompt, responses, cost = arguments.prompt, [arguments.response] * arguments.group, Cost.of(policy.arch)
    # three times the forward pass: making logits again is no need of the algorithm, and not done where all fit at once
    cost = dataclasses.replace(cost, response=cost.response * 3 / 4)
    once, apart = (prompt, responses), (prompt, [arguments.response])
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "loss": losses,
        "gradient_difference": {
            form: gradient_differences(grads[form], grads["prompt once"]) for form in grads if form != "prompt once"
        },
        "token_bound": arguments.group * trunk_tokens(*apart) / trunk_tokens(*once),
        "flop_bound": arguments.group * cost.of_tree(*apart) / cost.of_tree(*once),
        "gflop": {
            form: (cost.of_tree(*once) if form == "prompt once" else arguments.group * cost.of_tree(*apart)) / 1e9
            for form in arguments.forms
        },
        "dtype": policy.config.model.dtype,
    }


def report(arguments: argparse.Namespace, found: dict, peaks: dict[str, int]) -> None:
    import megatron.core
    import torch

    from pivotrl.policy import device

    on_gpu = device.current().kind == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else f"{platform.machine()} CPU, {arguments.threads} threads"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True)
    print(
        f"{name}, load {os.getloadavg()[0]:.1f}; {time.strftime('%Y-%m-%d')}, commit {commit.stdout.strip()}, "
        f"torch {torch.__version__}, megatron-core {megatron.core.__version__}, {found['dtype']}"
    )
    print(
        f"prompt {arguments.prompt}, {arguments.group} responses of {arguments.response}; hidden {arguments.hidden}, "
        f"{arguments.layers} layers, {arguments.experts} experts top-{arguments.top_k}, vocabulary {arguments.vocab}\n"
    )
    once, processor = found["seconds"]["prompt once"], found["processor_seconds"]
    print(
        f"{'':18}  seconds (median)  GFLOP/s  times slower (of turns)  of processor time  peak MiB  times larger  "
        "gradient difference"
    )
    for form, seconds in found["seconds"].items():
        median = statistics.median(seconds)
        row = f"{form:18}  {median:16.2f}  {found['gflop'][form] / median:7.1f}"
        if form == "prompt once":
            print(f"{row}  {'':23}  {'':17}  {peaks[form] / 2**20:8.0f}")
            continue
        turns = [other / own for other, own in zip(seconds, once, strict=True)]
        used = statistics.median(processor[form]) / statistics.median(processor["prompt once"])
        worst, total = found["gradient_difference"][form]
        print(
            f"{row}  {median / statistics.median(once):8.2f} ({min(turns):5.2f}-{max(turns):5.2f})  "
            f"{used:17.2f}  {peaks[form] / 2**20:8.0f}  {peaks[form] / peaks['prompt once']:12.2f}  "
            f"{worst:.1e} worst parameter, {total:.1e} all"
        )
    plain = [form for form in found["seconds"] if form != "prompt once"]
    fastest = min(plain, key=lambda form: statistics.median(found["seconds"][form]))
    smallest = min(peaks[form] for form in plain)
    speed = statistics.median(found["seconds"][fastest]) / statistics.median(once)
    print(
        f"\nprompt once is {speed:.2f} x faster than the faster plain form ({fastest}), with "
        f"{peaks['prompt once'] / smallest:.2f} of the memory of the smaller plain one; "
        f"bounds: tokens {found['token_bound']:.2f} x, FLOPs {found['flop_bound']:.2f} x"
    )


def main() -> int:
    arguments = parse()
    if arguments.peak_of:
        form, folder = arguments.peak_of
        policy = make_policy(arguments, folder)
        warm_up(policy, arguments)
        samples = make_samples(arguments, arguments.prompt, arguments.response, arguments.group)
        print(peak_bytes(policy, form, samples))
        return 0
    if "prompt once" not in arguments.forms or len(arguments.forms) < 2:
        raise SystemExit("--forms: name 'prompt once' and at least one plain form")
    with tempfile.TemporaryDirectory() as folder:
        write_model(arguments, Path(folder))
        found = bench(arguments, folder)
        peaks = {form: peak_apart(form, folder) for form in arguments.forms}
    if arguments.json:
        print(json.dumps(found | {"peak_bytes": peaks}))
    else:
        report(arguments, found, peaks)
    worst = max(worst for worst, _ in found["gradient_difference"].values())
    if found["dtype"] == "float32" and worst > LARGEST_DIFFERENCE:
        print(f"FAILED: gradients differ by {worst:.1e}, more than {LARGEST_DIFFERENCE:.0e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
