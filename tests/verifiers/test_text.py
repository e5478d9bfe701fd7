import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.robust.free_text import LONGEST_COMPARED
from pivotrl.verifiers.text import compare, text_similarity
from tests.verifiers.text_cases import CHANGED as MORE_CHANGED
from tests.verifiers.text_cases import SAME as MORE_SAME

SAME = [
    ("cancel the order now", "Please cancel the order now."),
    ("cancel the order now", "the order: cancel now, please!"),
    ("refund 30 dollars to Mia", "Could you refund $30 to Mia, please?"),
    ("refund 30 dollars to Mia", "refund 30 USD to Mia"),
    ("move it to May 5", "please move it to 5 May"),
    ("move it to May 5th, 2024", "move it to 2024-05-05"),
    ("move it to May 5, 2024", "move it to May 5"),
    ("I will book two tickets for you", "I'll book 2 tickets for you"),
    ("book a ticket for the flight", "book one ticket for the flight"),
    ("do not cancel the order", "don't cancel the order, please"),
    ("I cannot refund the fare", "I can\u2019t refund the fare"),
    ("the meeting is at 3 pm tomorrow", "the meeting is tomorrow at 15:00"),
    ("the shop closes at noon today", "the shop closes at 12:00 today"),
    ("Pay 1,000 to the account", "pay 1000 to the account"),
    ("Pay one thousand two hundred and five to the account", "pay 1205 to the account"),
    ("a total of 1.5 million dollars", "a total of 1,500,000 dollars"),
    ("reset the password of the account", "resetting the account's password"),
    ("the customer's refund was processed successfully", "The refund for the customer has been successfully processed"),
    (
        "User wants to remove a checked bag from reservation ID 1N99U6 and receive a refund for it.",
        "The user would like to remove one checked bag from reservation 1N99U6 and get a refund.",
    ),
    ("he said that Mia Li may come", "Mia Li may come, he said"),
    ("the bag weighs 30 kg", "the bag weighs 30kg"),
    ("it takes 3 days to arrive", "it takes 3 days to arrive."),
    ("visit us at https://a.example/x now", "Now visit us at https://a.example/x."),
    ('play the song "Blue Moon" next', "play next the song Blue Moon"),
    ("caf\u00e9 booking is open", "cafe\u0301 booking is open"),
    ("\uff26\uff35\uff2c\uff2c width letters here", "full width letters here"),
]

CHANGED = [
    ("cancel the order now", "do not cancel the order"),
    ("cancel the order now", "don't cancel the order now"),
    ("cancel the order now", "never cancel the order now"),
    ("the order is cancelled", "the order is cancelled, not"),
    ("no, the order is cancelled", "the order is cancelled"),
    ("find flights with wifi", "find flights without wifi"),
    ("we go outside if it rains", "we go outside unless it rains"),
    ("do not cancel the order but refund the fee", "cancel the order but do not refund the fee"),
    ("the fare is refundable today", "the fare is non-refundable today"),
    ("the room is available today", "the room is unavailable today"),
    ("refund 30 dollars to Mia", "refund 80 dollars to Mia"),
    ("refund thirty dollars to Mia", "refund eighty dollars to Mia"),
    ("refund 30 dollars to Mia", "refund dollars to Mia"),
    ("pay 1,000 to the account", "pay 1,001 to the account"),
    ("pay 1.5 to the account", "pay 15 to the account"),
    ("it is -5 degrees outside", "it is 5 degrees outside"),
    ("book one ticket for me", "book two tickets for me"),
    ("book the first flight for me", "book the second flight for me"),
    ("the price is 1.5 million dollars", "the price is 1.5 thousand dollars"),
    ("move it to May 5", "move it to May 6"),
    ("move it to May 5", "move it to June 5"),
    ("move it to May 5, 2024", "move it to May 5, 2025"),
    ("leave on 2024-05-05 and return", "leave on 2024-05-06 and return"),
    ("leave on 05/06/2024 and return", "leave on 06/05/2024 and return"),
    ("the meeting is at 3 pm", "the meeting is at 4 pm"),
    ("the meeting is at 3 pm", "the meeting is at 3 am"),
    ("the meeting is at 15:30", "the meeting is at 15:45"),
    ("meet on Monday with the team", "meet on Tuesday with the team"),
    ("call me back tomorrow please", "call me back today please"),
    ("refund 30 dollars to Mia", "refund 30 dollars to Bob"),
    ("find me a hotel in Paris", "find me a hotel in Rome"),
    ("Mia wants a refund now", "Bob wants a refund now"),
    ("Juan Carlos Lopez", "Juan Carlos Perez"),
    ("Pedro Carlos Lopez", "Juan Carlos Lopez"),
    ("New York City", "New Jersey City"),
    ("12 Main Street Springfield", "14 Main Street Springfield"),
    ("cancel order A-12 now please", "cancel order A-13 now please"),
    ("the user is mia_li_3668 again", "the user is mia_li_3669 again"),
    ("send it to a@b.example today", "send it to c@b.example today"),
    ("visit us at https://a.example/x now", "visit us at https://a.example/y now"),
    ("open /tmp/a.txt and read", "open /tmp/b.txt and read"),
    ('search for "blue lamp" in the shop', 'search for "red lamp" in the shop'),
    ("fly from Boston to Denver", "fly from Denver to Boston"),
    ("book the flight before noon", "book the flight after noon"),
    ("accept the offer of the seller", "reject the offer of the seller"),
]

OTHER_TOPICS = [
    ("reset the password of the account", "what is the weather like in the mountains"),
    ("cancel the order now", "thank you, have a nice day"),
    ("the customer wants a refund for a broken lamp", "the customer wants to change the seats of a flight"),
    ("please help me with it", "the train to the coast leaves soon"),
    ("the of and to", "a an it is"),
]


@pytest.mark.parametrize("expected, actual", SAME + MORE_SAME)
def test_paraphrases_pass(expected, actual):
    assert compare(expected, actual) is None
    assert compare(actual, expected) is None


@pytest.mark.parametrize("expected, actual", CHANGED + MORE_CHANGED)
def test_a_change_that_matters_is_a_mismatch(expected, actual):
    assert compare(expected, actual).reason == "other_fact"
    assert compare(actual, expected).reason == "other_fact"
    assert compare(expected, expected + " ") is None and compare(actual, actual.upper().lower()) is None


@pytest.mark.parametrize("expected, actual", OTHER_TOPICS)
def test_other_topics_fail(expected, actual):
    assert compare(expected, actual).reason == "other_text"
    assert text_similarity(expected, actual) < 0.4


def test_the_score_is_the_documented_one():
    # Stems: cancel, order, lamp | cancel, order, table: W = 4 / 6; trigrams (padded): 6 + 5 shared of 4 + 6 + 5 + 5.
    def grams(*words):
        return {f" {word} "[at : at + 3] for word in words for at in range(len(word))}

    left, right = grams("cancel", "order", "lamp"), grams("cancel", "order", "tabl")
    trigrams = 2 * len(left & right) / (len(left) + len(right))
    found = text_similarity("cancel the order of lamps", "please cancel the ordered table")
    assert found == pytest.approx(0.75 * 4 / 6 + 0.25 * trigrams)
    assert text_similarity("a b", "A  b\n") == 1.0
    assert text_similarity("the", "of") == 0.0


def test_threshold_and_arguments():
    call = {
        "type": "function_call",
        "name": "send",
        "arguments": '{"to": "A-1", "summary": "the lamp is broken, refund"}',
    }
    other = {**call, "arguments": '{"summary": "refund for a lamp", "to": "A-1"}'}
    assert build_verifier(VerifierConfig(name="text")).verify(Attempt(call, [other])).reward == 1
    strict = build_verifier(VerifierConfig(name="text", params={"threshold": 0.95}))
    assert strict.verify(Attempt(call, [other])).reason == "other_text"
    assert strict.verify(Attempt(call, [call])).reward == 1
    wrong = {**call, "arguments": '{"summary": "lamp is broken, refund", "to": "A-2"}'}
    assert strict.verify(Attempt(call, [wrong])).reason == "other_value"


def test_padding_with_stop_words_is_not_free():
    assert compare("cancel the order now", "cancel the order now " + "please " * 25) is None
    assert compare("cancel the order now", "cancel the order now " + "please " * 60).reason == "other_text"
    assert compare("cancel the order now " + "please " * 60, "cancel the order now").reason == "other_text"


def test_values_that_are_no_text():
    assert compare("a b c", 7).reason == "other_type"
    assert compare("a b c", None).reason == "other_type"
    assert compare({"a": 1}, {"a": 1}) is None


def test_long_text_must_be_equal():
    long = "word " * LONGEST_COMPARED
    assert compare(long, long.upper()) is None
    assert compare(long, long + "more").reason == "too_long"
    assert compare("one two three", long).reason == "too_long"


UNITS = [
    '"ab" ',
    "5 ",
    "May 5 ",
    "two hundred ",
    "to a ",
    "Xy ",
    "-",
    "a-",
    "a.",
    "a/",
    "ab12x ",
    "1",
    "\u24b6",
    "'a' ",
]
UNITS += ["2024-05-05T10:00:00+02:00 ", "not a ", "\ud800", "\U00010a40 ", "1,", "(", "a'", "1:1 ", "1e9 ", "\ufdfa"]


@pytest.mark.parametrize("unit", UNITS)
def test_hostile_text_is_compared_soon(unit):
    text = (unit * LONGEST_COMPARED)[: LONGEST_COMPARED - 10]
    start = time.process_time()
    compare("one 1 two three " + text[:-40], text)
    compare(text, "one 1 two three " + text[:-40])
    assert time.process_time() - start < 2


PIECES = [
    "do",
    "not",
    "n't",
    "cancel",
    "Mia's",
    "May",
    "5",
    "3",
    "three",
    "A-1",
    "the",
    "\u201c",
    "quote",
    '"',
    "10:30",
    "pm",
]
PIECES += ["order", "-2", "1.5%", "/", ".", "?", "\n", "one", "first", "from", "to"]
TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=10).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_text_says_what_it_says(text):
    assert compare(text, text) is None
    assert compare(text, f" {text}\n") is None
    assert text_similarity(text, text) == 1.0


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_the_order_of_the_two_sides_does_not_matter(one, two):
    assert text_similarity(one, two) == text_similarity(two, one)
    assert 0 <= text_similarity(one, two) <= 1
    left, right = compare(one, two), compare(two, one)
    assert (left and left.reason) == (right and right.reason)
