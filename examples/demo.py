"""The main job on real input: value a portfolio of options, then develop a photograph,
in plain NumPy and compiled by tracejit.

    python examples/demo.py                    # both parts, pictures in out/
    python examples/demo.py --part portfolio --options 100000

Prints both times and the largest difference of the results; exits with 1 if they differ by more than rounding explains.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from attrs import frozen

import tracejit as tj

OUT = Path("out")


# The job, as a NumPy user writes it. Nothing of tracejit inside.


def normal_cdf(x):
    """Standard normal distribution function: Abramowitz and Stegun 26.2.17, absolute error below 7.5e-8."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    tail = tail * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return np.where(x < 0, tail, 1 - tail)


def call_prices(spot, strike, years, rate, volatility):
    """Black-Scholes prices of European calls."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    return spot * normal_cdf(d1) - strike * np.exp(-rate * years) * normal_cdf(d1 - spread)


def portfolio_value(position, spot, strike, years, rate, volatility):
    """What the whole book is worth: one number from six arrays."""
    return np.sum(position * call_prices(spot, strike, years, rate, volatility))


def smooth(photo, steps=20, edge=0.04, rate=0.2):
    """Perona-Malik diffusion: colours run together except across edges. In place, by slices."""
    u = photo.copy()
    for _ in range(steps):
        centre = u[1:-1, 1:-1]
        north, south = u[:-2, 1:-1] - centre, u[2:, 1:-1] - centre
        west, east = u[1:-1, :-2] - centre, u[1:-1, 2:] - centre
        flow = north * np.exp(-((north / edge) ** 2)) + south * np.exp(-((south / edge) ** 2))
        flow = flow + west * np.exp(-((west / edge) ** 2)) + east * np.exp(-((east / edge) ** 2))
        u[1:-1, 1:-1] += rate * flow
    return u


def outline(photo):
    """Sobel edges of the brightness, dark lines on white."""
    grey = photo[:, :, 0] * 0.299 + photo[:, :, 1] * 0.587 + photo[:, :, 2] * 0.114
    dx = grey[:-2, 2:] - grey[:-2, :-2] + 2 * (grey[1:-1, 2:] - grey[1:-1, :-2]) + grey[2:, 2:] - grey[2:, :-2]
    dy = grey[2:, :-2] - grey[:-2, :-2] + 2 * (grey[2:, 1:-1] - grey[:-2, 1:-1]) + grey[2:, 2:] - grey[:-2, 2:]
    edges = np.zeros_like(grey)
    edges[1:-1, 1:-1] = np.sqrt(dx * dx + dy * dy)
    return 1 - np.minimum(edges / 2, 1)


def vivid(photo, strength=6.0):
    """Pull each pixel towards its strongest colour: a softmax over the channels, mixed with the photograph."""
    weight = np.exp(strength * (photo - np.max(photo, axis=2, keepdims=True)))
    weight = weight / np.sum(weight, axis=2, keepdims=True)
    brightness = np.mean(photo, axis=2, keepdims=True)
    return np.clip(0.6 * photo + 0.4 * 2 * brightness * weight, 0, 1)


# Running it twice and comparing.


@frozen
class Comparison:
    """One job: seconds with NumPy and with tracejit (first call, then the best of several), and the error."""

    name: str
    numpy_seconds: float
    first_seconds: float
    seconds: float
    error: float
    tolerance: float

    @property
    def correct(self) -> bool:
        """Written so that a NaN is a failure."""
        return self.error <= self.tolerance

    def __str__(self) -> str:
        return (
            f"{self.name:34} {self.numpy_seconds * 1e3:9.2f} {self.seconds * 1e3:9.2f} "
            f"{self.numpy_seconds / self.seconds:7.1f}x"
            f" {self.first_seconds * 1e3:9.0f}   {self.error:.1e}{'' if self.correct else '   WRONG'}"
        )


def best_seconds(work: Callable[[], object], at_least: float = 0.3) -> float:
    """The fastest of the runs that fit into `at_least` seconds (two at the least)."""
    times: list[float] = []
    while len(times) < 2 or sum(times) < at_least:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(
    name: str, function: Callable[..., np.ndarray], *args: np.ndarray | float, tolerance: float
) -> tuple[np.ndarray, Comparison]:
    """The compiled result of `function(*args)`, and how it compares with NumPy's."""
    compiled = tj.jit(function)
    start = time.perf_counter()
    got = compiled(*args)
    first = time.perf_counter() - start
    want = function(*args)
    error = float(np.max(np.abs(got - want)) / np.max(np.abs(want)))
    comparison = Comparison(
        name, best_seconds(lambda: function(*args)), first, best_seconds(lambda: compiled(*args)), error, tolerance
    )
    print(comparison, flush=True)
    return got, comparison


def random_book(options: int) -> tuple[np.ndarray, ...]:
    """A book of calls: position, spot, strike, years to expiry, rate, volatility."""
    rng = np.random.default_rng(2024)
    spot = rng.lognormal(np.log(100), 0.3, options)
    return (
        rng.integers(-50, 200, options).astype(float),
        spot,
        spot * rng.uniform(0.7, 1.4, options),
        rng.uniform(0.05, 3, options),
        rng.uniform(0.0, 0.05, options),
        rng.uniform(0.1, 0.6, options),
    )


def portfolio(options: int) -> list[Comparison]:
    """Price every option, total the book, and draw the price of one option over spot and volatility."""
    book = random_book(options)
    _, prices = compare(f"{options:,} option prices", call_prices, *book[1:], tolerance=1e-12)
    value, total = compare("value of the whole book", portfolio_value, *book, tolerance=1e-11)
    print(f"    the book is worth {float(value):,.2f}")
    spot, volatility = np.meshgrid(np.linspace(50, 150, 400), np.linspace(0.05, 0.6, 300))
    surface, drawn = compare(
        "price surface 300 x 400", call_prices, spot, 100.0, 1.0, 0.03, volatility, tolerance=1e-12
    )
    draw_surface(spot, volatility, surface)
    return [prices, total, drawn]


def draw_surface(spot: np.ndarray, volatility: np.ndarray, surface: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    shades = axes.contourf(spot, volatility, surface, levels=24, cmap="viridis")
    axes.set(xlabel="spot", ylabel="volatility", title="Call, strike 100, one year, rate 3 %")
    figure.colorbar(shades, label="price")
    figure.savefig(OUT / "portfolio.png", dpi=120)
    plt.close(figure)
    print(f"    wrote {OUT / 'portfolio.png'}")


def photograph() -> list[Comparison]:
    """Smooth, sharpen and outline the photograph of a Chinese temple that scikit-learn ships."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    photo = load_sample_image("china.jpg").astype(np.float32) / np.float32(255)
    smoothed, first = compare("photograph: 20 diffusion steps", smooth, photo, tolerance=1e-5)
    coloured, second = compare("photograph: vivid colours", vivid, smoothed, tolerance=1e-5)
    lines, third = compare("photograph: outline", outline, smoothed, tolerance=1e-5)
    panels = [photo, smoothed, coloured, np.repeat(lines[:, :, None], 3, axis=2)]
    sheet = np.vstack([np.hstack(panels[:2]), np.hstack(panels[2:])])
    Image.fromarray((sheet * 255).round().clip(0, 255).astype(np.uint8)).save(OUT / "photograph.png")
    print(f"    wrote {OUT / 'photograph.png'}: as taken, smoothed, vivid, outlined")
    return [first, second, third]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="An option portfolio and a photograph, with NumPy and with tracejit.")
    parser.add_argument("--part", choices=["portfolio", "photograph", "all"], default="all")
    parser.add_argument("--options", type=int, default=1_000_000, help="number of options in the book")
    chosen = parser.parse_args(argv)
    OUT.mkdir(exist_ok=True)
    print(f"{'':34} {'NumPy ms':>9} {'tracejit':>9} {'faster':>8} {'1st call':>9}   error")
    results: list[Comparison] = []
    if chosen.part in ("portfolio", "all"):
        results += portfolio(chosen.options)
    if chosen.part in ("photograph", "all"):
        results += photograph()
    wrong = [result.name for result in results if not result.correct]
    if wrong:
        print("results differ from NumPy's by more than rounding explains: " + ", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
