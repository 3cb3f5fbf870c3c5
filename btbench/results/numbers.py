"""How numbers are written for people: three significant digits and a unit, everywhere the same."""

from __future__ import annotations

from math import isinf

NOTHING = "–"  # where there is no value

_DURATIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SIZES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def digits(value: float) -> str:
    """Three significant digits, never an exponent: 0.563, 1.40, 437, 1,374."""
    if value == 0:
        return "0"
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if abs(value) >= 1e-4 else f"{value:.2e}"


def duration(seconds: float | None) -> str:
    """1.48 s, 563 ms, 22.0 µs; nothing below is told apart: <1 µs."""
    if seconds and abs(seconds) < 0.9995e-6:
        return "<1 µs" if seconds > 0 else ">-1 µs"
    return _with_unit(seconds, _DURATIONS, "s")


def size(bytes_: float | None) -> str:
    """21.5 GB, 1 GB = 1e9 bytes."""
    return _with_unit(bytes_, _SIZES, "B")


def _with_unit(value: float | None, scale: tuple[tuple[float, str], ...], plain: str) -> str:
    if value is None:
        return NOTHING
    if value == 0:
        return f"0 {plain}"
    # 0.9996 is written 1.00, not 1,000 thousandths
    factor, unit = next(((f, u) for f, u in scale if abs(value) >= 0.9995 * f), (scale[-1]))
    return f"{digits(value / factor)} {unit}"


def percent(value: float | None) -> str:
    """62.0%, -1,077.3%, of a number that is in % already; what one decimal would make 0 has two: -0.04%."""
    if value is None:
        return NOTHING
    if 0.005 <= abs(value) < 0.05:
        return f"{value:.2f}%"
    return f"{value:,.1f}%".replace("-0.0%", "0.0%")


def percents(low: float, high: float) -> str:
    """41.0 to 55.5%, of numbers that are in % already."""
    return f"{percent(low)[:-1]} to {percent(high)}"


def change(value: float | None) -> str:
    """+12.9%, -0.29%, +5,501%, of a number that is in % already."""
    return NOTHING if value is None else f"{_signed(value)}%".replace("∞%", "∞")


def points(value: float | None) -> str:
    """+22.9 points, of the difference of two numbers that are in %."""
    return NOTHING if value is None else f"{_signed(value)} points"


def _signed(value: float) -> str:
    """Three significant digits, two below 1."""
    if value == 0 or isinf(value):
        return "0" if value == 0 else f"{value:+}".replace("inf", "∞")
    size = abs(value)
    if size >= 0.995:
        return f"{value:+,.0f}" if size >= 99.95 else f"{value:+.1f}"
    return f"{value:+#.2g}" if size >= 1e-4 else f"{value:+.0e}"


def share(value: float | None) -> str:
    """62.0%, of a share between 0 and 1."""
    return NOTHING if value is None else f"{value * 100:.1f}%"


def count(value: float | None) -> str:
    """61,800."""
    return NOTHING if value is None else f"{value:,.0f}"


def in_unit(value: float | None, unit: str) -> str:
    """A value of the registry of metrics, by its unit."""
    return {"s": duration, "bytes": size, "1": share, "%": percent}.get(unit, count)(value)


def in_points(unit: str) -> bool:
    """Whether differences are told in points: those of shares and of numbers in %, where % of % misleads."""
    return unit in ("1", "%")


def as_points(difference: float, unit: str) -> float:
    """A difference of shares, or of numbers in %, in points."""
    return difference * 100 if unit == "1" else difference


def difference(value: float | None, unit: str) -> str:
    """The difference of two values of the registry, with its sign: +72.1 ms, -0.10 points."""
    if value is None or not in_points(unit):
        return ("+" if value and value > 0 else "") + in_unit(value, unit)
    return points(as_points(value, unit))


def relative(here: float, published: float) -> float:
    """(here - published) / |published|; the plain difference from 0."""
    return (here - published) / (abs(published) or 1.0)


def deviation(of: float) -> str:
    """How far off a value is, relative: exact, 2e-16, +3.2%."""
    if of == 0:
        return "exact"
    if abs(of) < 1e-4:
        return f"{abs(of):.0e}"
    return change(of * 100)
