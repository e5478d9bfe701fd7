"""Pretraining of the demo's base model: the model's shape, batches with loss on assistant tokens only, the optimizer,
and what the model can do, measured without sampling."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from pivotrl.demo.expert import KINDS
from pivotrl.demo.families import FAMILIES, Family, questions
from pivotrl.demo.noise import play
from pivotrl.demo.tasks import make_task
from pivotrl.demo.tokenizer import GENERATION_PROMPT, render

IGNORED = -100


def new_model(tokenizer):
    """A Qwen3-MoE of 1.15 M parameters (fp32, random): hidden 128, 4 layers, 8 experts of which 2 act, 4 / 2 heads."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        moe_intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        experts_implementation="eager",
    )
    return Qwen3MoeForCausalLM(config)


def load_model(path):
    """A model that `new_model` began (fp32)."""
    from transformers import Qwen3MoeForCausalLM

    return Qwen3MoeForCausalLM.from_pretrained(path, dtype=torch.float32, experts_implementation="eager")


class Encoder:
    """Dialogs -> token ids and labels. Encodes message by message, since most messages repeat."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.header = len(self.encode(GENERATION_PROMPT))
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def dialog(self, messages: list[dict], tools: list[dict]) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """-> (ids [L], labels [L], for each message the [start, end) of its labelled tokens).

        Labelled is what an assistant writes: its text up to and with <|im_end|>, without the header before it.
        """
        ids, labels, spans = [], [], []
        for message, text in zip(messages, render(messages, tools), strict=True):
            if text not in self._cache:
                if len(self._cache) > 50_000:
                    self._cache.clear()
                self._cache[text] = self.encode(text)
            piece = self._cache[text]
            start, end = len(ids) + self.header, len(ids) + len(piece) - 1
            ids += piece
            spans.append((start, end))
            if message["role"] == "assistant":
                labels += [IGNORED] * self.header + piece[self.header : -1] + [IGNORED]
            else:
                labels += [IGNORED] * len(piece)
        return ids, labels, spans

    def question(self, text: str, answer: str) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """The same for one question of a family."""
        return self.dialog([{"role": "user", "content": text}, {"role": "assistant", "content": answer}], [])


def collate(rows: list[tuple], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of (ids, labels, ...) -> ids [B, L] and labels [B, L], int64, padded on the right."""
    length = max(len(row[0]) for row in rows)
    ids_BL = torch.full((len(rows), length), pad)
    labels_BL = torch.full((len(rows), length), IGNORED)
    for n, (ids, labels, *_) in enumerate(rows):
        ids_BL[n, : len(ids)] = torch.tensor(ids)
        labels_BL[n, : len(labels)] = torch.tensor(labels)
    return ids_BL, labels_BL


def cross_entropy(model, ids_BL: torch.Tensor, labels_BL: torch.Tensor) -> torch.Tensor:
    """Mean loss over the labelled tokens (nats); the output head sees only those."""
    hidden_BLH = model.model(input_ids=ids_BL).last_hidden_state[:, :-1]
    targets_BL = labels_BL[:, 1:]
    wanted_BL = targets_BL != IGNORED
    return F.cross_entropy(model.lm_head(hidden_BLH[wanted_BL]), targets_BL[wanted_BL])


class Muon(torch.optim.Optimizer):
    """Muon (Jordan et al., 2024) for matrices [..., R, C]: the momentum is made nearly orthogonal by five Newton-Schulz
    steps. The step's scale, 0.2 sqrt(max(R, C)), gives it AdamW's size (Moonlight, arXiv 2502.16982)."""

    def __init__(self, parameters, lr: float, momentum: float = 0.95, weight_decay: float = 0.01):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                average = state.setdefault("average", torch.zeros_like(parameter))
                average.mul_(group["momentum"]).add_(parameter.grad)
                direction = _orthogonal(parameter.grad + group["momentum"] * average)
                size = 0.2 * max(parameter.shape[-2:]) ** 0.5
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction, alpha=-group["lr"] * size)


def _orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """The nearest orthogonal matrix, roughly (singular values .7 to 1.2)."""
    tall = matrix.size(-2) > matrix.size(-1)
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if tall else x


@dataclass(frozen=True)
class Ability:
    """What a model can do. Chances are those of one sample at temperature 1, computed and not sampled.

    `kinds`: kind of desk turn -> mean chance of a right turn. `greedy`: kind -> share of turns whose greedy text is the
    expert's. `turns`: mean chance over all turns. `mixed`: mean chance that eight samples hold right and wrong ones.
    `families`: family -> share of greedy answers that are right.
    """

    kinds: dict[str, float]
    greedy: dict[str, float]
    turns: float
    mixed: float
    families: dict[str, float]

    @property
    def mean(self) -> float:
        """Mean greedy share over kinds of turns and families."""
        return sum([*self.greedy.values(), *self.families.values()]) / (len(self.greedy) + len(self.families))

    @property
    def worst(self) -> float:
        """The worst greedy share over kinds of turns and families."""
        return min([*self.greedy.values(), *self.families.values()])

    def line(self) -> str:
        """One line for a log."""
        kinds = " ".join(f"{kind} {self.kinds[kind]:.2f}/{self.greedy[kind]:.2f}" for kind in self.kinds)
        families = " ".join(f"{family} {share:.2f}" for family, share in self.families.items())
        return f"turns {self.turns:.2f} mixed {self.mixed:.2f} | chance/greedy {kinds} | {families}"


@torch.no_grad()
def measure(
    model, encoder: Encoder, tasks: int = 60, answers: int = 60, known: Mapping[str, Family] = FAMILIES
) -> Ability:
    """Teacher-forced measurement on expert trajectories and families that training never sees.

    The chance of a right call is that of the expert's exact text (a tiny model writes JSON in one way); of a right
    message, which may say anything, that of not opening with <tool_call>.
    """
    model.eval()
    opening = encoder.tokenizer.convert_tokens_to_ids("<tool_call>")
    chances: dict[str, list[float]] = {kind: [] for kind in KINDS}
    greedy: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    rows, turns = [], []
    for index in range(tasks):
        desk, kinds = play(make_task("measure", index))
        rows.append(encoder.dialog(desk.messages, desk.tools))
        turns.append(kinds)
    for row, logp_LV in _forward(model, rows, encoder):
        for message, kind in turns[row]:
            start, end = rows[row][2][message]
            targets = torch.tensor(rows[row][0][start:end])
            span_LV = logp_LV[start - 1 : end - 1]
            if kind in ("ask", "reply"):
                chances[kind].append(1 - span_LV[0, opening].exp().item())
            else:
                chances[kind].append(span_LV.gather(1, targets[:, None]).sum().exp().item())
            greedy[kind].append(bool((span_LV.argmax(-1) == targets).all()))
    families = {family: share_right(model, encoder, questions(family, answers, "measure", known)) for family in known}
    every = [chance for kind in KINDS for chance in chances[kind]]
    return Ability(
        kinds={kind: sum(v) / len(v) for kind, v in chances.items()},
        greedy={kind: sum(v) / len(v) for kind, v in greedy.items()},
        turns=sum(every) / len(every),
        mixed=sum(1 - p**8 - (1 - p) ** 8 for p in every) / len(every),
        families=families,
    )


@torch.no_grad()
def share_right(model, encoder: Encoder, pairs: list[tuple[str, str]]) -> float:
    """Share of (question, answer) pairs whose greedy answer is the right one."""
    rows = [encoder.question(*pair) for pair in pairs]
    right = 0
    for row, logp_LV in _forward(model, rows, encoder):
        start, end = rows[row][2][1]
        right += bool((logp_LV[start - 1 : end - 1].argmax(-1) == torch.tensor(rows[row][0][start:end])).all())
    return right / len(pairs)


def _forward(model, rows: list[tuple], encoder: Encoder, batch: int = 30):
    """Yields (row number, log-probs [L, V]) of every row."""
    for first in range(0, len(rows), batch):
        some = rows[first : first + batch]
        ids_BL, _ = collate(some, encoder.tokenizer.pad_token_id)
        logp_BLV = model(input_ids=ids_BL).logits.float().log_softmax(-1)
        for n, logp_LV in enumerate(logp_BLV):
            yield first + n, logp_LV


SHARE = {"add": 24, "sort": 8, "reverse": 8, "shift": 12}
"""Questions of each family in a step of the demo's base."""


def batch_rows(
    encoder: Encoder,
    rng: random.Random,
    step: int,
    noise: dict | None,
    dialogs: int,
    known: Mapping[str, Family] = FAMILIES,
    share: Mapping[str, int] = SHARE,
) -> list[list[tuple]]:
    """The rows of one training step: `dialogs` desk logs (noisy or clean), and questions of every family."""
    desks = [play(make_task("pretrain", step * dialogs + n), rng, noise)[0] for n in range(dialogs)]
    pairs = [pair for family in known for pair in questions(family, share[family], f"pretrain/{step}", known)]
    return [
        [encoder.dialog(desk.messages, desk.tools) for desk in desks],
        [encoder.question(*pair) for pair in pairs],
    ]


class Trainer:
    """Model and optimizers: Muon for the matrices, AdamW for embeddings, head, routers and norms."""

    def __init__(self, model, encoder: Encoder, rng: random.Random, lr: float = 3e-3, dialogs: int = 16):
        def is_matrix(name, parameter):
            return parameter.ndim >= 2 and not any(part in name for part in ("embed", "lm_head", "gate.weight"))

        named = list(model.named_parameters())
        matrices = [p for n, p in named if is_matrix(n, p)]
        others = [p for n, p in named if not is_matrix(n, p)]
        self.optimizers = [torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.01), Muon(matrices, lr)]
        self.model, self.encoder, self.rng, self.lr, self.dialogs = model, encoder, rng, lr, dialogs
        self.tokens = 0

    def step(self, number: int, noise: dict | None, scale: float) -> tuple[float, float]:
        """One update on the data of step `number` at `scale` times the learning rate -> (desk, families) losses."""
        return self.update(batch_rows(self.encoder, self.rng, number, noise, self.dialogs), scale)

    def update(self, batch: list[list[tuple]], scale: float) -> tuple[float, float]:
        """One update on the two lists of rows that `batch_rows` gives -> (desk, families) losses."""
        self.model.train()
        losses = []
        for rows in batch:
            ids_BL, labels_BL = collate(rows, self.encoder.tokenizer.pad_token_id)
            loss = cross_entropy(self.model, ids_BL, labels_BL)
            loss.backward()
            losses.append(loss.item())
            self.tokens += ids_BL.numel()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.lr * scale
            optimizer.step()
            optimizer.zero_grad()
        return losses[0], losses[1]
