"""How much of what lies between the baseline and the floor, which no policy can beat, each policy closes."""

from __future__ import annotations

from statistics import median

from matplotlib.figure import Figure

from btbench.charts.findings import percents
from btbench.charts.layout import shorten
from btbench.charts.lines import Key, line_chart
from btbench.charts.reduction import draw_percents, ends_of, room_for
from btbench.charts.view import View


def gap_chart(view: View) -> Figure | None:
    """Horizontal bars with their values; None where the floor is not known, or no gap above it."""
    closed = {key: row["gap_closed_pct"] for key, row in view.rows.items()}
    known = {key: float(value) for key, value in closed.items() if value is not None}
    if not known:
        return None
    note = "Floor: no queue, and all that earlier requests brought in is in HBM; no policy can beat it."
    lines = line_chart(view, known, ["Share of the gap closed"], _title(view, known), note)
    shares = known.values()
    draw_percents(view, lines.panels[0], lines, known, ends_of(shares), room_for(shares, lines.size))
    lines.panels[0].set_xlabel(f"% of the way from the mean TTFT of {shorten(view.baseline)} to the floor")
    return lines.figure


def _title(view: View, closed: dict[Key, float]) -> str:
    """What the policy that typically closes the most of the gap closes of it."""
    of: dict[str, list[float]] = {}
    for (_, policy), value in closed.items():
        of.setdefault(policy, []).append(value)
    best = max(of, key=lambda policy: median(of[policy]))
    shares, gap = of[best], f"of the gap between {view.baseline} and the floor"
    gains = sum(share > 0 for share in shares)
    if not gains:
        return f"No policy closes any {gap}"
    if gains == len(shares):
        return f"{best} closes {percents(min(shares), max(shares))} {gap}"
    return f"{best} closes up to {percents(max(shares), max(shares))} {gap}, on {gains} of {len(shares)} setups"
