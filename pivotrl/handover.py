"""The device passes between the engine, which samples, and the trainer, which updates. In an order that never holds
the engine's weights twice, and never its cache beside the trainer's optimizer where both do not fit.

What is in the device's memory (P: with `training.offload`, else always; E: with `rollout.sleep`, else always):

| moment            | policy's weights | gradients, optimizer | activations | engine's weights   | cache       |
|-------------------|------------------|----------------------|-------------|--------------------|-------------|
| rollout, verdicts | held             | gone (P)             | none        | held               | held        |
| update            | held             | held                 | held        | gone (E)           | gone (E)    |
| refit             | held             | gone (P)             | none        | being written      | gone (E)    |
| canary            | held             | gone (P)             | of one row  | held               | held, empty |
| save, with P      | held             | held                 | none        | gone (E)           | gone (E)    |
| save, without P   | held             | held                 | none        | held               | held        |

"Gone" is: gradients dropped, the optimizer on the host, the engine's weights and cache given up without a copy. The
engine's old weights go before the update that makes them old; a refit writes the new ones where they are read, through
two buffers. The policy's own weights always stay: they are what a refit reads.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pivotrl.policy.step import Policy
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.refit import RefitReport, refit


def to_trainer(policy: Policy, engine: Engine) -> None:
    """Before an update (collective)."""
    engine.sleep()
    policy.wake()


def to_engine(policy: Policy, engine: Engine) -> RefitReport:
    """Before sampling: the engine awake with the policy's weights, and the proof of it (collective).

    Raises:
        RefitError: as `refit`.
    """
    policy.sleep()
    return refit(policy, engine)


@contextmanager
def whole_trainer(policy: Policy, engine: Engine) -> Iterator[None]:
    """Around the reading and writing of a checkpoint: the trainer has all that it needs, and then the engine
    (collective). Where nothing of the trainer's is away, nothing happens.

    Raises:
        RefitError: as `refit`.
    """
    if not policy.asleep:
        yield
        return
    to_trainer(policy, engine)
    yield
    to_engine(policy, engine)
