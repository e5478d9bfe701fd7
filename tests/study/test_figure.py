"""A figure is one well-formed SVG that needs no page around it."""

import xml.etree.ElementTree as ElementTree

import pytest

from pivotrl.study.figure import Panel, figure


def test_a_figure_stands_alone():
    panels = [
        Panel("a < b", "steps", {"one": [(0, 1.0), (1, 2.0)], "two & more": [(0, 0.5), (1, None)]}, marks=True),
        Panel("lone", "steps", {"x": [(0, 1.0), (3, 1.0)]}),
        Panel("third", "steps", {"x": [(0, 1.0)]}),
    ]
    text = figure(panels)
    root = ElementTree.fromstring(text)
    words = [node.text for node in root.iter() if node.tag.endswith("}text")]
    assert {"a < b", "lone", "third", "two & more", "steps"} <= set(words)
    assert len([node for node in root.iter() if node.tag.endswith("}svg")]) == 4
    spots = [node.get("fill") for node in root.iter() if node.tag.endswith("}circle")]
    assert spots.count("transparent") == 2, "marks show the points of the first panel; a lone point shows itself"
    for colour in {part.split(")")[0] for part in text.split("var(")[1:]}:
        assert f"{colour}:#" in text, f"{colour} has no value outside the report"


def test_a_panel_without_values_is_an_error():
    with pytest.raises(ValueError, match="'empty' has no values"):
        figure([Panel("empty", "x", {"a": []})])
