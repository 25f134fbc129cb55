"""What an installed tracejit must do with only its declared dependencies present. The argument is the checkout it must
not come from.
"""

import sys
from importlib import metadata
from pathlib import Path

import numpy as np

import tracejit as tj


@tj.jit
def discounted(price, rate, years):
    return np.maximum(price, 0.0) * np.exp(-rate * years)


def main(checkout: Path) -> None:
    here = Path(tj.__file__).resolve()
    assert checkout.resolve() not in here.parents, f"imported from the checkout: {here}"
    assert metadata.version("tracejit")
    assert (here.parent / "py.typed").exists()
    rng = np.random.default_rng(0)
    price, years = rng.normal(100, 80, 1000), rng.uniform(0, 3, 1000)
    want = np.maximum(price, 0.0) * np.exp(-0.05 * years)
    got = discounted(price, 0.05, years)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert "exp" in discounted.lower(price, 0.05, years).text("jaxpr")
    reference = tj.jit(discounted.__wrapped__, backend="reference")(price, 0.05, years)
    np.testing.assert_allclose(reference, want, rtol=1e-14)
    print("tracejit", metadata.version("tracejit"), "works from", here.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
