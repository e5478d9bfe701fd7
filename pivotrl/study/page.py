"""Writes the study's page and its figure from the results. Every word that judges follows from the numbers.

What stands below the line MARK of an existing page is kept: that part is written by hand.
"""

from pathlib import Path

from pivotrl.study.claims import claims
from pivotrl.study.figure import figure
from pivotrl.study.findings import KNOWN, Findings, find
from pivotrl.study.plan import QUICK, QUICK_SETTLED
from pivotrl.study.plots import panels
from pivotrl.study.remarks import remarks
from pivotrl.study.results import Results
from pivotrl.study.settled import first_sizes, is_settled, settled_step
from pivotrl.study.tables import arms_table, claim_row, cost_table, families_table, sweep_table, table

LATER = (
    "The arms with KL and at half a batch, and so 1c and 4c, are attempts that were added after 1a to 4b had been "
    "seen; they are no claims of the paper. So is the second contest, `study_settled.md`."
)
MARK = "<!-- below this line: written by hand, kept -->"
SUCCESS = (
    "Success: share of test tasks solved, percent; in braces the bootstrap interval over tasks. Families: change of "
    "the mean accuracy, points; chance: of the mean chance of the right answer at temperature 1, points; log-prob: of "
    "the right answer's mean log-prob, nats. Zero signal: share of training groups whose rewards were all equal. "
    "Turns: rollout turns until that point, selection included."
)


def write_page(results: Results, page: Path) -> list[Path]:
    """Write `page` and `<page's name>.svg` beside it -> both. Raises ValueError where the study is not done."""
    findings = find(results)
    picture = page.with_suffix(".svg")
    kept = page.read_text(encoding="utf-8").partition(MARK)[2] if page.exists() else ""
    page.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(figure(panels(findings)), encoding="utf-8")
    text = "\n\n".join(sections(results, findings, picture.name))
    page.write_text(f"{text}\n\n{MARK}{kept or chr(10)}", encoding="utf-8")
    return [page, picture]


def sections(results: Results, findings: Findings, picture: str) -> list[str]:
    """The page's paragraphs and tables."""
    made = claims(findings)
    costs = [
        "## Rollout turns to the same success",
        cost_table(findings),
        "Means over seeds of the turns until the test success is first reached, linear between points; where not all "
        "seeds reach it, how many do. The ratio is of the means. The paper's own count leaves the selection out.",
    ]
    settled = is_settled(results.sizes)
    small = ["**These are the sizes of --quick: they show that everything runs, and nothing else.**"]
    return [
        "# The study" + (", continued: from a model that PivotRL has trained" if settled else ""),
        f"`bash tools/study.sh` makes this page, all its figures and `{picture}`, and continues where it was killed.",
        *(small if results.sizes in (QUICK, QUICK_SETTLED) else []),
        setting(results, findings),
        "## The paper's claims",
        table(("claim", "bound", "found", "verdict"), [claim_row(claim) for claim in made]),
        "*Shown*: the whole interval is beyond the bound. *In the mean only*: the mean is, the interval is not. Each "
        "verdict stands alone: there is no correction for their number.",
        *([] if settled else [LATER]),
        "## Each arm at its best validation success",
        arms_table(findings),
        SUCCESS,
        "## Change on each family, points",
        families_table(findings),
        f"Means over families count those that the base answers in at least {100 * KNOWN:.0f} % of the cases.",
        *([] if settled else costs),
        "## The whole frontier",
        f"![frontier]({picture})",
        "## The sweep",
        sweep_table(findings, results.sizes.points),
        "Validation success in percent / change of the families' mean in points, after each number of steps.",
        "## What to know about these figures",
        "\n".join(f"- {line}" for line in remarks(findings, results, made)),
    ]


def setting(results: Results, findings: Findings) -> str:
    """What was run, in one paragraph."""
    sizes = results.sizes
    first = sizes.seeds[0]
    families = len(findings.base[first]["families"])
    start = (
        f"A tiny Qwen3-MoE model (1.15 M parameters) at the demo's customer desk; {sizes.trajectories} expert "
        "trajectories in another style than the base's (`pivotrl/demo/style.py`)."
    )
    if is_settled(sizes):
        known = first_sizes(sizes).trajectories
        start = (
            f"The first study again for {len(sizes.arms)} arms, from another base: the model of its PivotRL run of "
            f"seed {first} after step {settled_step(sizes)}. Of the {sizes.trajectories} expert trajectories, the "
            f"first {known} are those on which that model was trained already, with the functional verifier, at a "
            "rate chosen on the same validation tasks."
        )
    return (
        f"{start} Every arm gets the same "
        f"sweep: {len(sizes.rates)} rates x {len(sizes.points['pivots'])} numbers of steps on seed {first}, judged by "
        f"the success in {sizes.validation_tasks} live validation tasks; its best rate then runs on seeds "
        f"{', '.join(map(str, sizes.seeds))}, and validation chooses each run's point. All figures but the sweep's are "
        f"of {sizes.test_tasks} other live tasks (temperature 1) and {sizes.questions} questions of each of {families} "
        "families that training never touches (greedy, exact). Square brackets: the 95 % interval over seeds "
        "(Student's t; of the training's seed only, with one set of trajectories and of test tasks); round ones: each "
        "seed."
    )
