"""Train a small network on scikit-learn's handwritten digits: the loss in plain NumPy, its gradient by `tj.grad`,
the step compiled.

    python examples/digits.py

Checks the gradient against finite differences and the accuracy on digits it has not seen; exits with 1 if either is
off.
"""

import sys
import time

import numpy as np

import tracejit as tj

HIDDEN = 64
BATCH = 128
EPOCHS = 30


def scores(params, x):
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params, x, target):
    """Mean cross entropy; `target` holds a one in the column of the right digit."""
    s = scores(params, x)
    top = np.max(s, axis=1, keepdims=True)
    log_total = top + np.log(np.sum(np.exp(s - top), axis=1, keepdims=True))
    return np.mean(np.sum(target * (log_total - s), axis=1))


def step(params, x, target, rate):
    """One step of gradient descent."""
    slope = tj.grad(loss)(params, x, target)
    return {name: value - rate * slope[name] for name, value in params.items()}


def initial(rng):
    return {
        "w1": rng.normal(size=(64, HIDDEN)) / 8,
        "b1": np.zeros(HIDDEN),
        "w2": rng.normal(size=(HIDDEN, 10)) / np.sqrt(HIDDEN),
        "b2": np.zeros(10),
    }


def slope_error(params, x, target, rng):
    """Difference between the gradient along a random direction and a central difference of the loss, relative."""
    direction = {name: rng.normal(size=value.shape) for name, value in params.items()}
    slope = tj.jit(tj.grad(loss))(params, x, target)
    along = sum(np.sum(slope[name] * direction[name]) for name in params)
    h = 1e-6
    ahead = {name: params[name] + h * direction[name] for name in params}
    behind = {name: params[name] - h * direction[name] for name in params}
    measured = (loss(ahead, x, target) - loss(behind, x, target)) / (2 * h)
    return abs(along - measured) / abs(measured)


def main():
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    x, target, digits = images[order] / 16, np.eye(10)[digits[order]], digits[order]
    params = initial(rng)
    error = slope_error(params, x[:BATCH], target[:BATCH], rng)
    print(f"gradient against finite differences: {error:.1e}")

    train = tj.jit(step)
    started = time.perf_counter()
    for _ in range(EPOCHS):
        for first in range(0, 1400, BATCH):
            batch = slice(first, min(first + BATCH, 1400))
            params = train(params, x[batch], target[batch], 0.5)
    seconds = time.perf_counter() - started
    right = np.mean(np.argmax(scores(params, x[1400:]), axis=1) == digits[1400:])
    print(f"{EPOCHS} epochs in {seconds:.2f} s; {right:.1%} of {len(x) - 1400} unseen digits read correctly")
    return 0 if error < 1e-5 and right > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
