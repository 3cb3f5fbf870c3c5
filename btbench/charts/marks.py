"""How policies are told apart, in colour and without it: one mark a policy, the same in every chart.

Built-in policies have marks of their own. A variant (`btb-smg`, `sglang_0.2`) keeps its base's hue, darker or lighter;
any other name has a colour that no built-in has. Both take markers, hatches and dashes that no built-in has, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from matplotlib.colors import to_hex, to_rgb

from btbench.charts.palette import BLUE, DARK, GREEN, LIGHT, ORANGE, PURPLE, RED, SKY, Theme, on_page


class Mark(NamedTuple):
    """How a policy is told from the others."""

    colour: str
    marker: Any  # as matplotlib takes it: its name, or the corners of a polygon
    hatch: str
    dash: tuple[float, ...] = ()  # of a line: lengths on and off, in widths; none is solid

    @property
    def line_style(self) -> Any:
        """The dash as matplotlib takes it."""
        return (0, self.dash) if self.dash else "-"


# Okabe and Ito's colours, then ones near Tol's muted scheme (2021), moved until any two stay apart in colour-blind
# vision too (the tests say how far)
_POLICIES = {
    "btb": Mark(BLUE, "o", ""),
    "cache_aware": Mark(ORANGE, "s", "//", (5, 1)),
    "least_load": Mark(SKY, "^", "..", (2, 0.8)),
    "sglang": Mark(GREEN, "P", "\\\\", (8, 1)),
    "smg": Mark(RED, "v", "||", (3, 1)),
    "round_robin": Mark(PURPLE, "D", "xx", (5, 1, 1, 1)),
    "random": Mark("#64645D", "X", "++", (1, 1)),
    "dynamo": Mark("#76114B", "<", "oo", (8, 1, 1, 1)),
    "mooncake": Mark("#332288", ">", "--", (3, 1, 1, 1)),
    "preble": Mark("#5CB49C", "p", "\\", (6, 2)),
    "llm_d": Mark("#999933", "h", "/", (4, 2, 1, 2)),
    "power_of_two": Mark("#B3618D", "d", "x", (2, 2)),
    "prefix_hash": Mark("#8C6D31", "8", "/-", (10, 2)),
    "pull": Mark("#9C3184", "*", "+", (6, 1, 2, 1)),
}
_ON_DARK = {
    "random": "#A9A9A9",
    "dynamo": "#A03672",
    "mooncake": "#4F5ECD",
    "preble": "#61B18E",
    "power_of_two": "#C55D5D",
    "pull": "#A84A9E",
}
_OTHERS = {  # colours of names that are no built-in's
    LIGHT.name: ("#6455CE", "#9F3E00", "#FF7C98", "#114006", "#C1A969", "#8CB0C8"),
    DARK.name: ("#1DEBFE", "#9C0A32", "#C0DF61", "#8DBAD2", "#6F4A06", "#1FDC80"),
}
_MARKERS = (
    ((-1, 1), (1, 1), (-1, -1), (1, -1)),  # an hourglass
    ((-1, -0.45), (1, -0.45), (1, 0.45), (-1, 0.45)),  # a wide bar
    ((-1, -1), (0, -0.3), (1, -1), (0, 1)),  # an arrow's head
    ((-1, 1), (-0.2, 1), (-0.2, -0.2), (1, -0.2), (1, -1), (-1, -1)),  # an L
    ((-1, 1), (1, -1), (1, 1), (-1, -1)),  # a bow tie
    ((-1, 1), (1, 1), (1, 0.3), (0.35, 0.3), (0.35, -1), (-0.35, -1), (-0.35, 0.3), (-1, 0.3)),  # a T
    ((-0.45, -1), (0.45, -1), (0.45, 1), (-0.45, 1)),  # a tall bar
    ((-1, -1), (1, -1), (1, 1), (1, 1)),  # half a square
)
_HATCHES = ("O", "/|", "\\.", "|.", "x.", "\\-", "+.", "o-", "/.", "o|", "\\|")
_DASHES = ((7, 1, 1, 1, 1, 1), (4, 3), (12, 2), (1, 2.5), (3, 1, 3, 1, 1, 1), (9, 3, 2, 3), (5, 1, 1, 1, 1, 1, 1, 1))
_LEAST_CONTRAST = 1.9  # of a colour and the page, as WCAG 2.1 measures it


def policy_marks(policies: Iterable[str], theme: Theme = LIGHT) -> dict[str, Mark]:
    """The mark of each policy, no two alike: a built-in's never changes, others depend on those named before them."""
    marks: dict[str, Mark] = {}
    others: list[str] = []  # their bases, "" where there is none
    for name in dict.fromkeys(policies):
        if name in _POLICIES:
            marks[name] = _POLICIES[name]._replace(colour=_colour(name, theme))
            continue
        base, k = base_of(name), len(others)
        colours = _shades(_colour(base, theme), theme) if base else _OTHERS[theme.name]
        colour = colours[others.count(base) % len(colours)]
        marks[name] = Mark(colour, _MARKERS[k % len(_MARKERS)], _HATCHES[k % len(_HATCHES)], _DASHES[k % len(_DASHES)])
        others.append(base)
    return marks


def base_of(name: str) -> str:
    """The built-in policy that a variant's name begins with, "" where there is none."""
    bases = (base for base in _POLICIES if name.startswith(base) and name[len(base) :][:1] in ("-", "_", "."))
    return max(bases, key=len, default="")


def _colour(policy: str, theme: Theme) -> str:
    """Of a built-in policy."""
    colour = on_page(_POLICIES[policy].colour, theme)
    return _ON_DARK.get(policy, colour) if theme is DARK else colour


def _shades(colour: str, theme: Theme) -> list[str]:
    """The colour lighter and darker, as far as it stands out from the page; first what stands out more."""
    away = DARK if theme is LIGHT else LIGHT
    shades = [_mixed(colour, end, share) for end, share in ((away, 0.35), (theme, 0.4), (away, 0.55), (theme, 0.55))]
    return [shade for shade in shades if _contrast(shade, theme.page) >= _LEAST_CONTRAST]


def _mixed(colour: str, end: Theme, share: float) -> str:
    """The colour with so much of a theme's page in it."""
    r, g, b = ((1 - share) * x + share * y for x, y in zip(to_rgb(colour), to_rgb(end.page), strict=True))
    return to_hex((r, g, b)).upper()


def _contrast(one: str, other: str) -> float:
    dark, light = sorted(_luminance(colour) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgb(colour))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
