"""What `tools/evaluate.py` does on every rank: base and policies, one after another in one session."""

from pathlib import Path

from pivotrl.config import RunConfig
from pivotrl.evaluation import measure, report
from pivotrl.evaluation.source import BASE, check_architecture, named_sources
from pivotrl.evaluation.text import describe
from pivotrl.policy.architecture import Architecture


def run(config: RunConfig, given: list[str]) -> None:
    """Measure `model.path` and every policy of `given` (`NAME=SOURCE`), and write and print the comparison.

    What can be known to be wrong is found before the session is opened.

    Raises:
        ValueError: a policy or a file cannot be used, or nothing is to be measured.
        RefitError: weights did not arrive.
    """
    sources = named_sources(given, config.output)
    arch = Architecture.from_hf(config.model.path)
    for _, source in sources.values():
        check_architecture(source, arch)
    measure.check(config)

    from pivotrl.evaluation.weights import load_into
    from pivotrl.session import open_session

    session, parts = open_session(config), config.evaluation
    speaks = session.world.rank == 0

    def say(words: str) -> None:
        if speaks:
            print(words, flush=True)

    say(f"== {BASE}: {config.model.path}")
    pivots = measure.heldout_pivots(session, parts) if "turns" in measure.parts_of(parts) else None
    results = [measure.evaluate(session, parts, BASE, pivots)]
    for name, (text, _) in sources.items():
        say(f"== {name}: {text}")
        load_into(session, text)
        results.append(measure.evaluate(session, parts, name, pivots))
    if speaks:
        folder = Path(config.output) / measure.FOLDER
        paths = {BASE: config.model.path} | {name: str(source.path) for name, (_, source) in sources.items()}
        comparison = report.write(config, results, paths, folder)
        say(f"\n{describe(comparison)}\n\nreport: {folder / 'report.html'}\nresults: {folder / 'evaluation.json'}")
