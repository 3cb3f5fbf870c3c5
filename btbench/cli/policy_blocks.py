"""`btbench list policies`: what there is to know of each policy, and its parameters below it."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, get_type_hints

from btbench.cli.console import stdout
from btbench.cli.rows import Rows, in_words

if TYPE_CHECKING:
    from rich.console import RenderableType


def policy_rows() -> dict[str, Rows]:
    """The policies, those of installed packages last, and the parameters of all that have any."""
    from btbench.policies.plugins import offers
    from btbench.policies.registry import KINDS
    from btbench.scenario.policies import policy_table
    from btbench.scenario.words import allowed, meaning

    parameters = []
    for kind in KINDS:
        table = policy_table(kind)
        hints = get_type_hints(table, include_extras=True)
        parameters += [
            {
                "policy": kind.name,
                "parameter": key,
                "default": field.default,
                "allowed": allowed(hints[key], in_short=True),
                "meaning": meaning(hints[key]),
            }
            for key, field in table.model_fields.items()
        ]
    policies = [
        {"policy": kind.name, "rule": kind.summary, "source": kind.source, "leaves_out": kind.leaves_out}
        for kind in KINDS
    ]
    policies += [
        {
            "policy": offer.name,
            "rule": offer.summary or "a policy of your own",
            "source": ", ".join(filter(None, (offer.package, offer.where, offer.kind))),
            "leaves_out": "",
        }
        for offer in offers()
    ]
    return {"policies": policies, "parameters": parameters}


def policy_blocks(tables: Mapping[str, Rows]) -> "Iterator[RenderableType]":
    """A block for each policy: one table would leave every parameter's meaning a column of a word's width."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    for policy in tables["policies"]:
        about = Table.grid("", "", padding=(0, 2, 0, 0))
        about.columns[0].min_width = len("  leaves out")  # so that all blocks are in line
        about.add_row(Text(str(policy["policy"]), style="cyan"), Text(str(policy["rule"])))
        for key in ("source", "leaves_out"):
            if policy[key]:
                about.add_row(Text(f"  {key}".replace("_", " "), style="dim"), Text(str(policy[key])))
        parameters = Table.grid("", "", "", "", padding=(0, 2, 0, 0))
        for k, column in enumerate(parameters.columns):
            column.no_wrap = k < 2
            column.overflow = "fold"
        parameters.columns[2].max_width = max(13, stdout().width // 6)  # one long choice leaves room for the meanings
        for row in tables["parameters"]:
            if row["policy"] == policy["policy"]:
                cells = (in_words(key, row[key]) or "none" for key in ("parameter", "default", "allowed", "meaning"))
                parameters.add_row(*map(Text, cells))
        yield about
        yield Padding(parameters, (0, 0, 1, 2))
