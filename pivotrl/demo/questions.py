"""Writes questions of the families that have nothing to do with the desk, for tools/evaluate.py.

    python -m pivotrl.demo.questions --out questions.jsonl --count 200 --seed 1 [--hard]

Every row is {"family", "messages", "answer"}; the answer is compared exactly. `--hard` asks those of `hard_families`,
which the study's base can answer and the demo's cannot.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from pivotrl.demo.families import FAMILIES, Family, questions
from pivotrl.demo.hard_families import HARD_FAMILIES


def rows(count: int, seed: int | str, families: Mapping[str, Family] = FAMILIES) -> Iterator[dict]:
    """`count` rows of each family, family by family; no question of a family comes twice.

    Raises ValueError where a family has not so many.
    """
    for family in families:
        distinct = dict(questions(family, 20 * count, seed, families))
        if len(distinct) < count:
            raise ValueError(f"family {family} has {len(distinct)} questions in {20 * count} draws: ask for fewer")
        for question, answer in islice(distinct.items(), count):
            yield {"family": family, "messages": [{"role": "user", "content": question}], "answer": answer}


def write(out: Path, count: int, seed: int | str, families: Mapping[str, Family] = FAMILIES) -> None:
    """Write the rows to `out` (whole file or nothing)."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part")
    part.write_text("".join(json.dumps(row) + "\n" for row in rows(count, seed, families)), encoding="utf-8")
    os.replace(part, out)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write questions that have nothing to do with the desk (JSON Lines).")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--count", type=int, default=100, help="questions of each family (default 100)")
    parser.add_argument("--seed", default="heldout", help="stream of questions (default heldout)")
    parser.add_argument("--hard", action="store_true", help="the study's harder families")
    options = parser.parse_args()
    if options.count < 1:
        parser.error(f"--count is {options.count}: write a number of at least 1")
    families = HARD_FAMILIES if options.hard else FAMILIES
    write(options.out, options.count, options.seed, families)
    print(f"{options.out}: {len(families)} families, {options.count} questions each, seed {options.seed}")


if __name__ == "__main__":
    main()
