import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.sql import compare

SAME = [
    ("select a from t limit 10", "select a from t limit 10 offset 0"),
    ("SELECT a FROM t", "select  A\nfrom T ;"),
    ("select a -- all\nfrom t", "select a /* none */ from t"),
    ('select "a" from t', "select a from t"),
    ("select `a` from t", "select a from t"),
    ("select u.id from users u", "select id from users"),
    ("select u.id from users as u", "select users.id from users"),
    ("select a.x, b.y from t a join s b on a.i = b.i", "select p.x, q.y from t as p inner join s as q on q.i = p.i"),
    ("select a.x from t a left outer join s b on a.i = b.i", "select c.x from t c left join s d on c.i = d.i"),
    ("select * from a, b where a.x = b.x", "select * from a cross join b where b.x = a.x"),
    ("select * from t where a = 1 and b <> 2", "select * from t where b != 2 and 1 = a"),
    ("select * from t where a > 1 or b = 2 or a > 1", "select * from t where (b = 2) or (1 < a)"),
    ("select * from t where a between 1 and 2", "select * from t where a >= 1 and a <= 2"),
    ("select * from t where b = 0 and a between 1 and 2", "select * from t where a >= 1 and a <= 2 and b = 0"),
    ("select * from t where a not between 1 and 2", "select * from t where a < 1 or a > 2"),
    ("select * from t where a in (1, 2)", "select * from t where a = 2 or a = 1"),
    ("select * from t where a not in (2, 1, 2)", "select * from t where a <> 1 and not a = 2"),
    ("select * from t where lower(a) in ('x', 'y')", "select * from t where LOWER(a) in ('y', 'x')"),
    ("select * from t where not (a = 1 and b > 2)", "select * from t where b <= 2 or a != 1"),
    ("select * from t where a is not null", "select * from t where not (a is null)"),
    ("select a from t order by a asc", "select a from t order by a"),
    ("select count(1) from t", "select COUNT(*) from t"),
    ("select a, b, sum(c) from t group by a, b", "select a, b, sum(c) from t group by b, a"),
    ("select id as id from t", "select id from t"),
    ("select cast(a as integer) from t", "select a::int from t"),
    ("with x as (select 1 as a) select a from x", "with y as (select 1 as a) select y.a from y"),
    ("select * from (select a from t) x", "select * from (select q.a from t q) as y"),
    (
        "select * from t where exists (select 1 from s where s.i = t.i) and a = 1",
        "select * from t k where a = 1 and exists (select 1 from s m where m.i = k.i)",
    ),
    ("select * from a where x in (select y from b)", "select * from a where x in (select q.y from b q)"),
    ("(select a from t) union select b from s", "select t.a from t union (select b from s)"),
    ("update t set a = 1, b = c where i = 2", "UPDATE t AS u SET a = 1, b = u.c WHERE 2 = u.i"),
    ("delete from t where a = 1 and b = 2", "delete from t where b = 2 and a = 1"),
    ("insert into t (a, b) values (1, 'x')", "INSERT INTO t(a,b) VALUES(1,'x')"),
    ("select 1; select 2;", "select 1;\n\nselect 2"),
    ("select top 5 a from t", "SELECT TOP 5 a FROM [t]"),
    ("not sql   at all;", "not sql at all"),
    ("", " ; "),
    ("grab  'a  b'\nnow", "grab 'a  b' now;"),
]
OTHER = [
    ("select a, b from t", "select b, a from t"),
    ("select a from t", "select distinct a from t"),
    ("select a from t", "select a as b from t"),
    ("select a from t", "select a from s"),
    ("select a from x.t", "select a from y.t"),
    ("select 'a' from t", "select 'A' from t"),
    ("select a from t where b = 'x  y'", "select a from t where b = 'x y'"),
    ("select a from t where b = ''", "select a from t where b = ' '"),
    ("select a from t where b = '1'", "select a from t where b = 1"),
    ("select true", "select false"),
    ('select "A" from t', "select a from t"),
    ("select a from t order by a", "select a from t order by a desc"),
    ("select a from t order by a, b", "select a from t order by b, a"),
    ("select a from t limit 5", "select a from t limit 6"),
    ("select a from t limit 5", "select a from t limit 5 offset 1"),
    ("select * from a join b on a.x = b.x", "select * from a left join b on a.x = b.x"),
    ("select * from a left join b on a.x = b.x", "select * from b left join a on a.x = b.x"),
    ("select a.x from t a join s b on a.i = b.i", "select b.x from t a join s b on a.i = b.i"),
    ("select a.* from t a join s b on a.i = b.i", "select b.* from t a join s b on a.i = b.i"),
    ("select x from t where a < b", "select x from t where a > b"),
    ("select x from t where a < b", "select x from t where a <= b"),
    ("select x from t where a = 1 and b = 2", "select x from t where a = 1 or b = 2"),
    ("select x from t where a = 1 and b = 2 or c = 3", "select x from t where a = 1 and (b = 2 or c = 3)"),
    ("select x from t where not a = 1 and b = 2", "select x from t where not (a = 1 and b = 2)"),
    ("select x from t where a in (1, 2)", "select x from t where a in (1, 2, 3)"),
    ("select x from t where a in (1, 2)", "select x from t where a not in (1, 2)"),
    ("select x from t where a between 1 and 2", "select x from t where a between 2 and 1"),
    ("select x from t where a like 'b%'", "select x from t where 'b%' like a"),
    ("select x from t where a is null", "select x from t where a is not null"),
    ("select a + 1 as b from t order by b", "select a + 1 as b from t order by t.b"),
    ("select a - b from t", "select b - a from t"),
    ("select a - (b - c) from t", "select a - b - c from t"),
    ("select count(a) from t", "select count(*) from t"),
    ("select count(distinct a) from t", "select count(a) from t"),
    ("select a from t union select a from s", "select a from t union all select a from s"),
    ("with x as (select 1) select * from x", "with x as (select 2) select * from x"),
    ("with x as (select 1) select * from x", "with y as (select 1) select * from x"),
    (
        "select * from t where exists (select 1 from s where s.i = t.i)",
        "select * from t where exists (select 1 from s where s.i = s.i)",
    ),
    ("update t set a = b", "update t set b = a"),
    ("insert into t (a, b) values (1, 2)", "insert into t (b, a) values (1, 2)"),
    (
        "insert into t (a) values (1) on conflict (a) do update set b = c",
        "insert into t (a) values (1) on conflict (a) do update set c = b",
    ),
    ("delete from t where a = 1", "delete from t"),
    ("delete from t", "select * from t"),
    ("drop table t", "drop view t"),
    ("drop table t", "drop table if exists t"),
    ("set x = y", "set y = x"),
]


@pytest.mark.parametrize("expected,actual", SAME)
def test_same_statements(expected, actual):
    assert compare(expected, actual) is None
    assert compare(actual, expected) is None


@pytest.mark.parametrize("expected,actual", OTHER)
def test_other_statements(expected, actual):
    assert compare(expected, actual).reason == "other_value"
    assert compare(actual, expected).reason == "other_value"


def test_white_space_that_says_something():
    assert compare("grab it now 'a  b'", "grab it now 'a b'").reason == "not_parsed"
    assert compare("grab it -- all\nnow", "grab it -- all now").reason == "not_parsed"
    assert compare("grab it -- all\n now", "grab  it -- all\nnow") is None


def test_statements_are_counted_and_ordered():
    assert compare("select 1; select 2", "select 2; select 1").reason == "other_value"
    assert compare("select 1; select 2", "select 1").reason == "other_list_length"
    assert compare("select 1", "select 1; drop table t").reason == "other_list_length"


@pytest.mark.parametrize(
    "actual", ["selec a from t", "", "/*", "'", "show tables", "select a from t where (", "\ud800", "\0"]
)
def test_what_does_not_parse_is_compared_as_text(actual):
    assert compare("select a from t", actual).reason == "not_parsed"
    assert compare(actual, "select a from t").reason == "not_parsed"
    assert compare(actual, actual + "  ;") is None


def test_dialect():
    assert compare("select a from t limit 1", "select `a` from `t` limit 1", dialect="mysql") is None
    assert compare("select `A` from t", "select a from t", dialect="mysql") is None
    assert compare("select a from t", "select `a` from t", dialect="postgres").reason == "not_parsed"
    in_quotes = 'select a from t where n = "Bob" or m in ("X")'
    assert compare(in_quotes, in_quotes.lower(), dialect="sqlite").reason == "other_value"
    assert compare(in_quotes, in_quotes.replace('"', "'"), dialect="sqlite") is None
    assert compare('select "A" from "T"', "select a from t", dialect="sqlite") is None
    with pytest.raises(ValueError, match="'oracel' is not a dialect; write one of"):
        build_verifier(VerifierConfig(name="sql", params={"dialect": "oracel"}))


def test_the_verifier_finds_the_argument():
    verifier = build_verifier(VerifierConfig(name="sql"))

    def call(**arguments):
        return {"type": "function_call", "name": "run_query", "arguments": json.dumps(arguments)}

    expert = call(sql="SELECT a FROM t WHERE b = 1", database="db1")
    assert verifier.verify(Attempt(expert, [call(sql="select a from t where 1 = b", database="db1")])).reward == 1
    assert verifier.verify(Attempt(expert, [call(sql="select a from t where 1 = b", database="db2")])).reward == 0
    assert verifier.verify(Attempt(expert, [call(sql="select a from t", database="db1")])).reason == "other_value"
    message = {"type": "message", "content": "Here:\n```sql\nselect a from t\n```"}
    answer = {"type": "message", "content": "```\nSELECT t.a FROM t;\n```"}
    assert verifier.verify(Attempt(message, [answer])).reward == 1


WORDS = "select from where join on as with and or not in between case when then end is null ( ) [ ] { } , . ; : :: "
WORDS += "= <> < > + - * / || -> 'x' \" ` $ @ ? 1 a b t f( date interval cast( over( partition by array<int> lateral "
WORDS += "values union except all exists distinct limit insert update set delete merge create table if x: unnest( --"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(WORDS.split()) | st.text(max_size=3), max_size=40), st.sampled_from(["select ", ""]))
def test_nothing_raises_and_sql_equals_itself(words, start):
    text = start + " ".join(words)
    assert compare(text, text) is None
    assert compare(text, f" {text}\n") is None
    compare("select a from t", text)
    compare(text, "select a from t")


def test_hostile_sql_is_judged_soon():
    units = ["(", "f(", "a in (", "case when ", "not ", "- ", "a.", "[1]", "::int", "1+", "a=1 and ", "a,", "/*", "{"]
    units += [" union select 1", " join b on 1=1", "select ", "with a as (", "interval ", "x -> ", "'", "a between "]
    units += ["union (", "struct(a ", "object(a, ", "struct<a ", "convert(", "lateral (a, "]  # 2^depth for sqlglot
    units += ["offset (select double precision ", "ilike ( null limit(a, ", "a::int8range join a "]
    for unit in units:
        for length in (25 * len(unit), 3_000):
            start = time.process_time()
            assert compare("select a from t", "select " + (unit * length)[:length]) is not None
            assert time.process_time() - start < 2, unit
    assert compare("select 1", "select " + "1," * 600_000).reason == "too_long"
    assert compare("select 1", "select " + "1," * 400_000).reason == "not_parsed"
