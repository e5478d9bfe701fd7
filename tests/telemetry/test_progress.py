import io

import pytest

from pivotrl.telemetry.progress import Progress, format_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_file_gets_a_line_now_and_then_and_the_last_one():
    out, clock = io.StringIO(), Clock()
    with Progress(100, "profiling", "turn", line_seconds=10, stream=out, clock=clock) as progress:
        for _ in range(10):
            clock.now += 4
            progress.advance(10, mixed="70 %")
    assert out.getvalue().splitlines() == [
        "profiling 30/100 turns (30 %)  2.5/s  about 28 s left  mixed 70 %",
        "profiling 60/100 turns (60 %)  2.5/s  about 16 s left  mixed 70 %",
        "profiling 90/100 turns (90 %)  2.5/s  about 4.0 s left  mixed 70 %",
        "profiling 100/100 turns (100 %)  2.5/s  in 40 s  mixed 70 %",
    ]


def test_items_of_an_earlier_run_count_as_done_but_not_for_the_speed():
    out, clock = io.StringIO(), Clock()
    progress = Progress(100, "profiling", "turn", done=80, line_seconds=5, stream=out, clock=clock)
    clock.now = 5
    progress.advance(10)
    assert out.getvalue() == "profiling 90/100 turns (90 %)  2/s  about 5.0 s left\n"


def test_other_ranks_are_silent():
    out, clock = Terminal(), Clock()
    with Progress(10, "profiling", rank=1, stream=out, clock=clock) as progress:
        clock.now = 100
        progress.advance(10)
    assert out.getvalue() == ""
    assert progress.done == 10


def test_a_terminal_gets_a_bar():
    out = Terminal()
    with Progress(4, "profiling", "turn", stream=out) as progress:
        progress.advance(4, mixed="70 %")
    assert "profiling: 100%" in out.getvalue()
    assert "mixed=70 %" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.25, "4.2 s"), (59, "59 s"), (65, "1:05 min"), (3599, "59:59 min"), (7384, "2:03 h")]
)
def test_format_seconds(seconds, text):
    assert format_seconds(seconds) == text
