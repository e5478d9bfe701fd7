"""Which errors of a collective mean that another rank is gone, and what is said of them."""

import pytest

from pivotrl.policy import lost
from pivotrl.telemetry.metrics import PhaseTimer

CLOSED = (
    "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:40663. This is "
    "typically caused by a remote worker crashing."
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError(CLOSED), True),
        (RuntimeError("Read error [127.0.0.1]:5: Connection reset by peer"), True),
        (RuntimeError("[x/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"), True),
        (RuntimeError("NCCL Error 6: remote process exited or there was a network error"), True),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"), False),
        (ValueError("Connection closed by peer"), False),
        (ConnectionResetError("Connection reset by peer"), False),
        (KeyError("broken pipe"), False),
    ],
)
def test_only_a_collectives_error_is_one_of_a_lost_rank(error: Exception, expected: bool) -> None:
    assert lost.is_lost(error) is expected


def test_the_line_has_the_phase_and_the_reason_and_no_more() -> None:
    with pytest.raises(RuntimeError) as raised, PhaseTimer(6).phase("rollout"):
        raise RuntimeError(CLOSED)
    said = "(Connection closed by peer [127.0.0.1]:40663)"
    assert lost.line(raised.value) == f"in the rollout of step 7 {said}"
    assert lost.line(RuntimeError(CLOSED)) == f"while it started {said}"
