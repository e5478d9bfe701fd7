"""The refit's plan is checked from names and shapes, before a byte moves."""

import pytest

from pivotrl.rollout.plan import Piece, RefitError, box, make_plan

WHOLE = Piece("norm", (4,), box((0, 4)), "norm", box((0, 4)))
GATE = Piece("gate", (8, 2), box((4, 8), (0, 2)), "gate_up", box((0, 4), (0, 2)))
UP = Piece("up", (8, 2), box((4, 8), (0, 2)), "gate_up", box((4, 8), (0, 2)))
EXPORTED = {"norm": (4,), "gate": (8, 2), "up": (8, 2)}
LANDINGS = {"norm": 4, "gate_up": 16}


def test_a_landing_waits_for_all_its_pieces() -> None:
    plan = make_plan(EXPORTED, [WHOLE, GATE, UP], LANDINGS)
    assert plan.pieces_of_target == {"norm": 1, "gate_up": 2}
    assert plan.by_source["up"] == [UP]


@pytest.mark.parametrize(
    ("exported", "pieces", "landings", "message"),
    [
        ({"norm": (4,), "gate": (8, 2)}, [WHOLE, GATE, UP], LANDINGS, "needs up .for gate_up."),
        (EXPORTED | {"extra": (1,)}, [WHOLE, GATE, UP], LANDINGS, "exports extra, which has no place"),
        (EXPORTED | {"gate": (8, 3)}, [WHOLE, GATE, UP], LANDINGS, r"gate is \[8, 3\] in the policy, \[8, 2\] in"),
        (EXPORTED, [WHOLE, GATE, UP], {"norm": 4, "gate_up": 24}, "16 of the 24 elements of the engine's gate_up"),
        (EXPORTED, [WHOLE, GATE, UP], LANDINGS | {"bias": 4}, "0 of the 4 elements of the engine's bias"),
    ],
)
def test_what_does_not_match_is_named(exported, pieces, landings, message) -> None:
    with pytest.raises(RefitError, match=message):
        make_plan(exported, pieces, landings)
