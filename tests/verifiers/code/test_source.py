"""Two pieces of source that mean the same are the same, and no others."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.code.languages import language_of
from pivotrl.verifiers.code.source import compare

SAME = [
    ("python", "x = 1", "x=1   # one"),
    ("python", "x = 'a'", 'x = "a"'),
    ("python", "x = 'ab'", "x = ('a'\n     'b')"),
    ("python", "x = 16", "x = 0x10"),
    ("python", "x = 1000.0", "x = 1e3"),
    ("python", "def f(a, b):\n    return a", "def f(\n  a,\n  b,\n):\n  # c\n  return (a)"),
    ("python", 'def f():\n    """Doc."""\n    return 1', "def f(): return 1"),
    ("python", 'def f():\n    """Doc."""', "def f():\n    pass"),
    ("python", '"""Module."""\nx = 1', "x = 1"),
    ("python", "class A:\n    'Doc.'\n    x = 1", "class A:\n\n    x = 1"),
    ("python", "    return x", "return x"),
    ("python", "        if a:\n            b()\n", "if a:\n  b()"),
    ("python", "if a:", "if  a :  # c"),
    ("python", "    elif b:\n        c()", "elif b:\n  c()  # d"),
    ("python", "else:\n    c(1)", "else:\n        c( 1 )"),
    ("python", "except E:\n    pass", "except  E:\n  pass"),
    ("python", "@property", "@ property"),
    ("python", "'a': 1,\n'b': 2,", '"a": 1, "b": 2'),
    ("python", "yield x", "yield (x)"),
    ("python", "print 'a', b", "print  'a',b  # Python 2"),
    ("python", "foo(a,\n    b", "foo( a, b"),
    ("python", "", "# nothing"),
    ("javascript", "const a = 'x'", 'const a = "x";  // c'),
    ("javascript", "f(a, b,)", "f(\n  a,\n  b\n)"),
    ("javascript", "foo() { return 1 }", "foo() {\n  return 1; /* c */\n}"),
    ("javascript", "<b>x  {y}</b>;", "<b>x  {y}</b>; // c"),
    ("javascript", "a = [1, 2,]", "a = [1,2];"),
    ("typescript", "let a:number=1", "let a: number = 1;"),
    ("typescript", "private x: string;", "private x : string"),
    ("tsx", "const a = <B x={1}/>", "const a = <B  x={1} />;"),
    ("go", "x := 1 // c\ny := 2", "x := 1; y := 2"),
    ("go", "0", "0\n"),
    ("go", "package p\nfunc f() { g(a,\n) }", "package p\n\nfunc f() {\n\tg(a)\n}"),
    ("rust", "let a: Vec<u8>=vec![1,2];", "let a: Vec<u8> = vec![1, 2]; // c"),
    ("rust", "fn f<'a>(x: &'a str) -> char { 'x' }", "fn f<'a>( x: &'a str ) -> char {\n    'x'\n}"),
    ("java", "int x=1; // c", "int x = 1;"),
    ("java", "class A { void f() { g(); } }", "class A\n{\n  void f()\n  {\n    g();\n  }\n}"),
    ("c", "#define A 1 // c\nint x;", "#define A 1\nint x;"),
    ("c", "int f(){return 1;}", "int f()\n{\n  return 1; /* c */\n}"),
    ("cpp", "std::vector<int> a{1,2,};", "std::vector<int> a{1, 2};"),
    ("bash", "a; b", "a\nb"),
    ("bash", "if x; then\n y\nfi", "if x\nthen y; fi  # c"),
    ("json", '{"a":1,"b":[2.0]}', '{"b": [2], "a": 1e0}'),
    ("json", '"a": 1,', '"a":  1 ,'),
    ("json", "{} // c", "{}  //  d"),
    ("yaml", "a:\n    - b  # c\n    - d", "a:\n  - b\n  - d\n"),
    ("makefile", "a: b\n\tgcc  -o x", "a: b  # c\n\tgcc -o x"),
    ("python", '"""Doc."""\nmain()', "main()"),
    ("python", "\ufeffx = 1", "x = 1"),
    ("python", "if a:\r\n    b()\r\n", "if a:\n    b()\n"),
    ("python", "foo(\n    a,\n    b,\n)", "foo(a, b)"),
    ("bash", "#! /bin/sh\na", "#!/bin/sh\na"),
    ("rust", "#![allow(x)]\nf();", "#![ allow(x) ]\nf();"),
    ("yaml", "a: 'b'", 'a: "b"'),
    ("yaml", "a: b", "a: 'b'"),
    ("yaml", "a: [1, 2]  # c", "a:\n- 1\n- 2"),
    ("yaml", "a:\n  - b", "a:\n- b"),
    ("toml", 'a = "b"  # c', 'a = "b"'),
    ("toml", "a=['b']", 'a = [\n  "b",  # c\n]'),
    ("toml", '  "a>=1",\n  "b",', '"a>=1", "b"'),
    ("toml", "a = ${x}  # c", "a = ${x}"),
    ("ini", "a =\n    b\n# c", "a =\n  b"),
    ("php", "# a\nf();", "f();"),
    ("scss", "a {\n  // b\n  c: d;\n}", "a {\n  c: d;\n}"),
    ("text", "a  b  \n\nc\n", "a  b\n\nc"),
    (None, "a   b\n\n  c", "a b\nc"),
]
OTHER = [
    ("python", "x = 1", "x = 2"),
    ("python", "x = 1", "x = 1.0"),
    ("python", "x = 1", "x = True"),
    ("python", "x = 0.0", "x = -0.0"),
    ("python", "x = 'a'", "x = b'a'"),
    ("python", "x = 'a  b'", "x = 'a b'"),
    ("python", "'abc'", "'xyz'"),
    ("python", "x = 'a'  # 'b'", "x = 'b'"),
    ("python", "if a:\n    b()\n    c()", "if a:\n    b()\nc()"),
    ("python", "if a:\n    b()\nelse:\n", "if a:\n    b()\n"),
    ("python", "x == None", "x is None"),
    ("python", "a + b", "b + a"),
    ("python", "f(a)", "f(a,)[0]"),
    ("python", "(a,)", "(a)"),
    ("python", "else:\n    b(", "    else:\n  b(1"),
    ("python", "for x in y:", "for x in y: pass\nz"),
    ("python", "f'{a}'", "'{a}'"),
    ("python", "", "pass"),
    ("python", "x: int = 1", "x = 1"),
    ("python", "async def f(): pass", "def f(): pass"),
    ("python", '"a "\n"b"', '"c "\n"b"'),
    ("python", '    "a "\n    f"{b}"', '    "c "\n    f"{b}"'),
    ("python", '"a "\n"b" % c', '"b "\n"b" % c'),
    ("python", '"a "\n"{}".format(c), d', '"b "\n"{}".format(c), d'),
    ("python", "#!/usr/bin/env python3\nx = 1", "x = 1"),
    ("bash", "#!/bin/bash\na", "#!/bin/sh\na"),
    ("bash", "for ((;i<3;)); do a; done", "for ((i<3;;)); do a; done"),
    ("c", "#define A f(x);", "#define A f(x)"),
    ("c", "#define A x - -1", "#define A x--1"),
    ("java", 'f( = """\n  a  b\n""";', 'f( = """\n  a b\n""";'),
    ("yaml", "a: x  y", "a: x y"),
    ("yaml", "a: |\n  x   y\n", "a: |\n  x y\n"),
    ("yaml", "a: |\n  x\n  # n\n", "a: |\n  x\n"),
    ("yaml", "a: '1'", "a: 1"),
    ("yaml", "a: yes", "a: 'yes'"),
    ("yaml", "a: &x 1\nb: *x", "a: &x 1\nb: 1"),
    ("yaml", "npm ci\nnpm test", "npm ci npm test"),
    ("yaml", "a: 1\nb: 2", "b: 2\na: 1"),
    ("toml", 'a = """\nx  y"""', 'a = """\nx y"""'),
    ("toml", "a = '1'", "a = 1"),
    ("toml", "a = true", "a = 1"),
    ("toml", "[x]\na = 1\n[y]", "[x]\n[y]\na = 1"),
    ("toml", "[1]", "entries = [1]"),
    ("ini", "r = a ; python_version < '3'", "r = a"),
    ("ini", "a =\n    b", "a =\nb"),
    ("dockerfile", "RUN a  # b", "RUN a"),
    ("indented", "a\n  b\nc", "a\n  b\n  c"),
    ("php", "#[A]\nfunction f(){}", "function f(){}"),
    ("javascript", "return\nx", "return x"),
    ("javascript", "[a,,]", "[a,]"),
    ("javascript", "for (;;) {}", "for (;) {}"),
    ("javascript", "`a b`", "`a  b`"),
    ("javascript", "a = /a b/", "a = /a  b/"),
    ("javascript", "<b>x {y}</b>", "<b>x{y}</b>"),
    ("javascript", "'it\"s'", "'its'"),
    ("javascript", "a == b", "a === b"),
    ("javascript", "const a = 1", "let a = 1"),
    ("go", "//go:embed a.txt\nvar x string", "var x string"),
    ("go", 'x := "a  b"', 'x := "a b"'),
    ("rust", "let a = (1,);", "let a = (1);"),
    ("rust", "f(&mut a)", "f(&a)"),
    ("java", 'String s = "a b";', 'String s = "a  b";'),
    ("java", "final int x;", "int x;"),
    ("c", "#define A 1\nint x;", "#define A 1 int x;"),
    ("c", "x = 'a';", "x = 'b';"),
    ("cpp", "a<b>(c)", "a<b>(d)"),
    ("bash", 'echo "a  b"', 'echo "a b"'),
    ("bash", "a & b", "a; b"),
    ("bash", "cat <<E\na  b\nE\n", "cat <<E\na b\nE\n"),
    ("json", '"a": 1,', '"a": 1'),
    ("json", "true", "1"),
    ("json", '"1"', "1"),
    ("json", "[1, 2]", "[2, 1]"),
    ("json", "1e400", "1e401"),
    ("json", "9007199254740993", "9007199254740992"),
    ("json", '{"a": {"b": 1}}', '{"a": 1, "b": 1}'),
    ("yaml", "a:\n  b: 1\nc: 1", "a:\n  b: 1\n  c: 1"),
    ("yaml", "a:b", "a: b"),
    ("yaml", "a: b#c", "a: b"),
    ("makefile", "a:\n\tb", "a:\nb"),
    ("makefile", "a:\n\tb", "a:\n    b"),
    ("text", "a b", "a  b"),
    (None, "a b", "ab"),
    (None, "a\nb", "a b"),
    (None, "a # b", "a"),
]


@pytest.mark.parametrize("language, left, right", SAME)
def test_the_same(language, left, right):
    assert compare(left, right, language) is None
    assert compare(right, left, language) is None


@pytest.mark.parametrize("language, left, right", OTHER)
def test_other(language, left, right):
    assert compare(left, right, language) is not None
    assert compare(right, left, language) is not None


def test_a_file_s_name_tells_the_language():
    names = "a/b.py x.PYI A.tsx b.hpp Makefile d/Dockerfile a.b.json README py a.unknown a.pyx a.scss poetry.lock a.hs"
    found = ["python", "python", "tsx", "cpp", "makefile", "dockerfile", "json", "text", None, None]
    found += ["python", "scss", "text", "indented"]
    assert [language_of(name) for name in names.split()] == found
    assert language_of("") is None


names = st.sampled_from(["a", "b", "value", "x1"])
atoms = st.one_of(names, st.integers(0, 999).map(str), st.sampled_from(["'a b'", '"#"', "None", "1.5", "f'{a}'"]))
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", " * ", " and ", " == "]), inner).map("".join),
        st.tuples(names, inner).map(lambda pair: f"{pair[0]}({pair[1]})"),
        inner.map(lambda value: f"[{value}]"),
    ),
    max_leaves=6,
)
statements = st.recursive(
    st.one_of(
        st.tuples(names, expressions).map(lambda pair: [f"{pair[0]} = {pair[1]}"]),
        expressions.map(lambda value: [f"return {value}"]),
    ),
    lambda inner: st.one_of(
        st.tuples(expressions, inner).map(lambda pair: [f"if {pair[0]}:", *("    " + line for line in pair[1])]),
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(statements, st.data())
def test_formatting_of_python_does_not_matter(lines, data):
    other = []
    for line in lines:
        if data.draw(st.booleans()):
            other.append(data.draw(st.sampled_from(["", "# c", "   # if x:"])))
        indent = len(line) - len(line.lstrip())
        end = data.draw(st.sampled_from(["", "  ", "  # note"]))
        other.append(" " * (indent // 4 * data.draw(st.just(2))) + line.strip() + end)
    shift = data.draw(st.sampled_from(["", "    "]))
    text = "\n".join(shift + line if line else line for line in other)
    assert compare("\n".join(lines), text, "python") is None
    assert compare("\n".join([*lines, "value = 7"]), text, "python") is not None


LANGUAGES = [
    *["python", "javascript", "tsx", "go", "rust", "java", "c", "cpp", "bash", "json", "yaml", "text", "css"],
    *["toml", "ini", "makefile", "php", None],
]
MARKS = [
    "#!/bin/sh\n",
    "\t",
    "a: ",
    "- ",
    "|\n",
    "a = ",
    "[a]\n",
    '"""',
    "if x:",
    "\n",
    "    ",
    "<<E",
    *"(){}'\"`#,;",
    "//",
    "/*",
    "*/",
]
pieces = st.lists(
    st.one_of(
        st.sampled_from(MARKS),
        st.text(max_size=4),
        names,
    ),
    max_size=14,
).map("".join)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pieces, pieces, st.sampled_from(LANGUAGES))
def test_any_text_equals_itself_and_comparison_is_symmetric(left, right, language):
    assert compare(left, str(left), language) is None
    assert (compare(left, right, language) is None) == (compare(right, left, language) is None)


@settings(max_examples=100, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_is_compared(value):
    assert isinstance(compare("x = 1", value, "python"), tuple) or value == "x = 1"


def test_characters_beyond_the_grammars_table_do_not_end_the_process():
    """tree-sitter-bash asks C's `isalpha` about them; beside a brace that read far outside its table."""
    noise = random.Random(2)
    parts = ["\U0001f600", "\U00020000", "\u20ac", "\ud800", "{", "${", "$(", "}", ")", "'", "a", "\n"]
    for _ in range(300):
        text = "".join(noise.choice(parts) for _ in range(noise.randint(1, 60)))
        assert compare(text, text, "bash") is None
        compare(text, text.replace("a", "b") + " # x", "bash")
