"""Which commands are the same, and why others are not."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.shell.compare import canonical, compare
from pivotrl.verifiers.shell.tables import TOOLS
from tests.verifiers.shell.cases import DIFFERENT, SAME

TOKENS = (
    "a b ls -la -n 5 cat ./a /b/../c | || & && ; ;; ( ) { } $( ${ $x \" ' \\ ` > >> < <<EOF <<< 2>&1 EOF if then fi "
    "for in do done case esac [ ] [[ ]] ! # * ? ~ = x= cd sudo env bash -c xargs find -exec \\; $' \u00e9 \ud800 \x00"
)
SHELL_TEXT = st.lists(st.sampled_from([*TOKENS.split(), " ", "\n", "\\\n", "\t"]), max_size=25).map(" ".join)
ANY_TEXT = st.one_of(SHELL_TEXT, st.text(max_size=60), st.text("ls -a'\"\\$`(){}|&;<>\n", max_size=40))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same(one, other):
    assert compare(one, other) is None
    assert compare(other, one) is None
    if not isinstance(canonical(one), Difference):
        assert hash(canonical(one)) == hash(canonical(other))


@pytest.mark.parametrize(("expected", "actual", "reason"), DIFFERENT)
def test_different(expected, actual, reason):
    found = compare(expected, actual)
    assert found is not None
    assert found.reason == reason
    assert found.detail and "\n" not in found.detail and len(found.detail) < 250
    assert compare(actual, expected) is not None


def test_every_command_of_the_tables_is_itself_and_no_other():
    commands = sorted({command for pair in SAME for command in pair} | {one for one, _, _ in DIFFERENT})
    forms: dict[object, str] = {}
    groups: dict[str, set[str]] = {}
    for one, other in SAME:
        merged = groups.get(one, {one}) | groups.get(other, {other})
        for member in merged:
            groups[member] = merged
    for command in commands:
        assert compare(command, command) is None
        form = canonical(command)
        if not isinstance(form, Difference) and form in forms:
            assert command in groups.get(forms[form], {forms[form]}) or compare(forms[form], command) is None
        forms[form] = command
    rows = random.Random(0).sample(commands, 60)
    for expected in rows:
        for actual in rows:
            same = compare(expected, actual) is None
            assert same == (compare(actual, expected) is None)
            if same and expected != actual:
                assert canonical(expected) == canonical(actual)


def test_the_known_directory():
    assert compare("cat a", "cat /r/a", cwd="/r") is None
    assert compare("make", "cd /r && make", cwd="/r/") is None
    assert compare("cd src && make", "cd /r/src && make", cwd="/r") is None
    assert compare("cat ../a", "cat /a", cwd="/r") is None
    assert compare("make", "cd /q && make", cwd="/r").reason == "other_directory"
    assert compare("cat a", "cat /q/a", cwd="/r").reason == "other_operands"


def test_in_a_shell_that_goes_on_a_change_of_directory_counts():
    assert compare("cd /r && cat a", "cat /r/a", persistent=True).reason == "other_command"
    assert compare("cd /r && cat a", "cd /r && cat /r/a", persistent=True) is None
    assert compare("cd /r && cat a", "cd /r/ && cat ./a", persistent=True) is None
    assert compare("(cd /r && cat a)", "(cat /r/a)", persistent=True) is None


def test_a_program_and_its_arguments():
    assert compare(["bash", "-lc", "ls -la"], ["bash", "-lc", "ls -al"]) is None
    assert compare(["ls", "-la", "a b"], "ls -al 'a b'") is None
    assert compare(["grep", "'x'", "f"], ["grep", "x", "f"]).reason == "other_operands"
    for odd in (None, 1, True, [], [1], {}, {"a": []}, ["ls", None], float("nan")):
        assert compare("ls", odd) is not None
        assert compare(odd, "ls") is not None


def test_an_option_that_is_not_known_makes_words_compare_as_they_stand():
    assert compare("ls --zzz -l a", "ls -l --zzz a").reason == "other_flags"
    assert compare("ls --zzz  'a'", "ls --zzz a") is None
    assert compare("head $x -n 5", "head -n 5 $x") is not None, "$x may hold an option that takes the next word"


def test_tables_name_what_they_hold():
    for name, known in TOOLS.items():
        for tool in (known, *known.sub.values()):
            canonical_names = {option for option, _ in (*tool.short.values(), *tool.long.values())} | {"filter"}
            named = {*tool.paths, *tool.positional, *tool.last, *tool.script, *tool.defaults}
            named |= {option for group in tool.exclusive for option in group.split("/")}
            assert named <= canonical_names, name


@settings(max_examples=400, deadline=None)
@given(ANY_TEXT)
def test_every_text_is_itself(text):
    assert compare(text, text) is None
    assert canonical(text) == canonical(text)
    if not isinstance(canonical(text), Difference) and not text.endswith("\\"):
        assert compare(text, f"\n {text}\n") is None


@settings(max_examples=400, deadline=None)
@given(ANY_TEXT, ANY_TEXT)
def test_symmetric_and_never_raises(one, other):
    for cwd, persistent in ((None, False), ("/r", True)):
        there = compare(one, other, cwd=cwd, persistent=persistent)
        back = compare(other, one, cwd=cwd, persistent=persistent)
        assert (there is None) == (back is None)


@settings(max_examples=200, deadline=None)
@given(
    st.permutations(["-l", "-a", "-h", "--reverse", "--ignore=x", "src"]),
    st.permutations(["-i", "-n", "-w", "-A3", "--include=*.py"]),
    st.sampled_from(["", "cd /r && ", "sudo "]),
)
def test_the_order_of_options_never_matters(listed, searched, prefix):
    assert compare(f"{prefix}ls {' '.join(listed)}", f"{prefix}ls -lah -r -I x src") is None
    assert compare(f"{prefix}grep {' '.join(searched)} x f", f"{prefix}grep -inw x f -A 3 --include '*.py'") is None


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("ab '\"\\$*~#é", min_size=1, max_size=6), min_size=1, max_size=4))
def test_quoting_never_matters(words):
    single = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    escaped = " ".join("".join("\\" + letter for letter in word) for word in words)
    double = " ".join('"' + "".join("\\" + c if c in '"\\$`' else c for c in word) + '"' for word in words)
    # The grammar does not take a word that starts with an escaped space.
    assert compare(f"cat {single}", f"cat {escaped}") is None or " \\ " in f" {escaped}"
    assert compare(f"cat {single}", f"cat {double}") is None
    assert compare(f"cat {single} x", f"cat {single} y") is not None


def _subcommands(name, known):
    for one in known.sub:
        yield name, known, one
        yield from _subcommands(f"{name} {one}", known.sub[one])


def test_no_two_subcommands_are_one_unless_the_table_says_so():
    for name, known, one in [found for top in TOOLS for found in _subcommands(top, TOOLS[top])]:
        for other in known.sub:
            same = known.other_names.get(one, one) == known.other_names.get(other, other)
            assert (compare(f"{name} {one} x", f"{name} {other} x") is None) == same
