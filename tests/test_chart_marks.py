"""Policies are told apart in every chart: by colour, also in colour-blind vision, and by marker, hatch and dash."""

from itertools import combinations

import numpy as np
import pytest

from btbench.charts import palette
from btbench.charts.marks import base_of, policy_marks
from btbench.policies.registry import NAMES
from btbench.scenario import load_scenario

COMMON = ["btb", "cache_aware", "least_load", "sglang", "smg", "dynamo", "mooncake", "pull", "random", "power_of_two"]
FAR, APART = 13.0, 8.5  # CIE76 differences of the colours of common policies, and of any two built-in ones
ROUTERS = [policy.name for policy in load_scenario("routers").policies]
each_theme = pytest.mark.parametrize("theme", palette.THEMES.values(), ids=lambda theme: theme.name)

# Linear RGB as seen without one kind of cones: Machado, Oliveira, Fernandes, "A physiologically-based model for
# simulation of color vision deficiency" (2009), table 1, severity 1.0
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.41246, 0.35758, 0.18044], [0.21267, 0.71515, 0.07217], [0.01933, 0.11919, 0.95030]])
D65 = XYZ.sum(1)  # the white of sRGB (IEC 61966-2-1)


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str) -> np.ndarray:
    """CIE L*a*b* of a colour as it is seen."""
    ratio = XYZ @ np.clip(VISION[vision] @ linear(colour), 0, 1) / D65
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(a: str, b: str) -> float:
    """WCAG 2.1 contrast ratio of two colours."""
    dark, light = sorted(float(linear(colour) @ XYZ[1]) for colour in (a, b))
    return (light + 0.05) / (dark + 0.05)


@each_theme
@pytest.mark.parametrize("vision", VISION)
def test_colours_stay_apart_in_colour_blind_vision(theme: palette.Theme, vision: str) -> None:
    seen = {name: lab(mark.colour, vision) for name, mark in policy_marks(NAMES, theme).items()}
    near = {
        pair: round(far, 1)
        for pair in combinations(seen, 2)
        if (far := float(np.linalg.norm(seen[pair[0]] - seen[pair[1]]))) < (FAR if {*pair} <= {*COMMON} else APART)
    }
    assert near == {}


@each_theme
def test_policies_differ_in_colour_and_without_it(theme: palette.Theme) -> None:
    marks = policy_marks(NAMES, theme)
    for these in (marks, policy_marks([*NAMES, "mine", "yours", "btb-smg", "sglang-0.2.2", "FewestTokens"], theme)):
        for look in zip(*these.values(), strict=True):
            assert len(set(look)) == len(these)  # colour, marker, hatch, dash
    assert min(contrast(mark.colour, theme.page) for mark in marks.values()) > 1.9
    assert contrast(theme.ink, theme.page) > 7 and contrast(theme.soft, theme.page) > 4.5


@each_theme
@pytest.mark.parametrize("names", [ROUTERS, [f"own{k}" for k in range(30)], [f"btb_{k}" for k in range(30)]])
def test_no_two_policies_look_the_same_and_none_looks_like_a_built_in(theme: palette.Theme, names: list[str]) -> None:
    marks = policy_marks(names, theme)
    assert len({mark[1:] for mark in marks.values()}) == len(names)  # even in grey
    built_in = policy_marks(NAMES, theme)
    for name in set(names) - set(NAMES):
        assert all(marks[name][k] not in {mark[k] for mark in built_in.values()} for k in range(4))
        assert contrast(marks[name].colour, theme.page) > 1.9


def hue(colour: str) -> float:
    """In degrees of a circle."""
    _, a, b = lab(colour, "normal")
    return float(np.degrees(np.arctan2(b, a)))


@each_theme
@pytest.mark.parametrize("base", ["btb", "sglang", "cache_aware", "smg"])
def test_a_variant_keeps_the_hue_of_its_base(theme: palette.Theme, base: str) -> None:
    own, *variants = policy_marks([base, f"{base}-a", f"{base}_b", f"{base}.c", f"{base}-d"], theme).values()
    turned = [abs((hue(mark.colour) - hue(own.colour) + 180) % 360 - 180) for mark in variants]
    assert max(turned) < 25
    assert len({own.colour, *(mark.colour for mark in variants[:2])}) == 3


def test_only_a_whole_name_makes_a_base() -> None:
    assert [base_of(name) for name in ("btb-smg", "btb2", "sglang-0.2.2", "random", "power_of_two.x", "my-btb")] == [
        "btb", "", "sglang", "", "power_of_two", "",
    ]  # fmt: skip


def test_a_policys_mark_does_not_depend_on_the_others() -> None:
    assert policy_marks(["btb", "mine"])["btb"] == policy_marks(["random", "btb"])["btb"]
    assert policy_marks(["mine", "btb", "mine"]) == policy_marks(["mine", "btb"])
