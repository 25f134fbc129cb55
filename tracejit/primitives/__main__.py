"""`python -m tracejit.primitives`: which primitive has which rule."""

from __future__ import annotations

from tracejit.ir.primitive import Primitive, primitives
from tracejit.primitives.elementwise import Elementwise

__all__ = ["REQUIRED", "RULES", "coverage", "status", "table"]

RULES = ("abstract_eval", "impl", "lower", "jvp", "transpose", "batch", "simplify", "trimmed", "value_range")

REQUIRED = ("abstract_eval", "impl", "lower", "jvp", "batch")
"""Rules that every primitive has; what is linear in an operand has `transpose`, others where they have more to say."""

_MADE_OF = {"impl": "numpy_function", "lower": "scalar", "jvp": "partials"}
"""What an elementwise class must state for a rule it inherits from `Elementwise`."""


def status(primitive: type[Primitive], rule: str) -> str:
    """`yes` if the class states the rule itself, `inherited` if a family does, `no` if nobody does."""
    owner = next(c for c in primitive.__mro__ if rule in c.__dict__)
    if owner is Primitive:
        return "no"
    if owner is Elementwise and rule in _MADE_OF:
        return _elementwise_status(primitive, _MADE_OF[rule])
    return "yes" if owner is primitive else "inherited"


def _elementwise_status(primitive: type[Primitive], part: str) -> str:
    owner = next((c for c in primitive.__mro__ if part in c.__dict__), None)
    if part == "scalar" and owner is Elementwise:  # which spells the scalar operation named by `op`
        return "yes" if primitive.__dict__.get("op") else "no"
    if owner is None or owner is Elementwise:
        return "no"
    return "yes" if owner is primitive else "inherited"


def coverage() -> dict[str, dict[str, str]]:
    """For every registered primitive the status of every rule."""
    return {name: {rule: status(cls, rule) for rule in RULES} for name, cls in sorted(primitives().items())}


def table() -> str:
    """The coverage as text: one primitive a line, families together."""
    found = coverage()
    family = {name: cls.__module__.rpartition(".")[2] for name, cls in primitives().items()}
    width = max(map(len, found)) + 2
    head = "".join(f"{rule:14}" for rule in RULES).rstrip()
    lines = [f"{'primitive':{width}}{head}"]
    for module in sorted(set(family.values())):
        lines.append(f"-- {module}")
        for name, rules in found.items():
            if family[name] == module:
                shown = ("-" if rules[r] == "no" else rules[r] for r in RULES)
                lines.append(f"{name:{width}}" + "".join(f"{s:14}" for s in shown).rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
