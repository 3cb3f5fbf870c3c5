"""Train and test: whole windows, a quarter of the shuffled ones and the rest."""

import random


def train_windows(windows: int) -> int:
    """How many of so many windows are train: a quarter, and at least one where one remains for test."""
    return max(min(1, windows - 1), windows // 4)


def split_windows(rng: random.Random, windows: int) -> dict[str, list[int]]:
    """Positions of the windows of each split, sorted; "all" holds both."""
    order = list(range(windows))
    rng.shuffle(order)
    train = train_windows(windows)
    return {"all": sorted(order), "train": sorted(order[:train]), "test": sorted(order[train:])}
