"""Steps of learning: gradients of a linear model, a step of a network, a recurrent layer over time."""

import numpy as np

from benchmarks.workload import Workload

RATE = 0.1
STEPS = 200


# -- gradient of a logistic loss, by hand and by derivative ------------------------------------------------------------
def logistic_gradient(w, X, y):
    """Gradient of the mean of log(1 + exp(-y * (X @ w))), for labels of -1 and 1."""
    slope = y / (1 + np.exp(y * (X @ w)))
    return -(slope @ X) / X.shape[0]


def logistic_gradient_transposed(w, X, y):
    """The same with the other order of operands and another spelling of the function."""
    slope = 0.5 * y * (1 - np.tanh(0.5 * y * np.dot(X, w)))
    return -np.dot(X.T, slope) / len(y)


def jax_logistic():
    import jax
    import jax.numpy as jnp

    return jax.jit(jax.grad(lambda w, X, y: jnp.mean(jnp.log1p(jnp.exp(-y * (X @ w))))))


def tracejit_logistic():
    import tracejit as tj

    return tj.jit(tj.grad(lambda w, X, y: np.mean(np.log1p(np.exp(-y * (X @ w))))))


def numba_logistic():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def gradient(w, X, y):
        n, m = X.shape
        threads = 2 * numba.get_num_threads()
        parts = np.zeros((threads, m), X.dtype)
        one = X.dtype.type(1)
        for t in numba.prange(threads):
            part = np.zeros(m, X.dtype)
            for i in range(t * n // threads, (t + 1) * n // threads):
                z = X.dtype.type(0)
                for j in range(m):
                    z += X[i, j] * w[j]
                s = y[i] / (one + np.exp(y[i] * z))
                for j in range(m):
                    part[j] -= s * X[i, j]
            parts[t] = part
        return parts.sum(0) / n

    return gradient


def labelled(rng, size, dtype):
    n, m = size
    X = rng.normal(size=(n, m)).astype(dtype)
    return (
        (rng.normal(size=m) / np.sqrt(m)).astype(dtype),
        X,
        np.where(rng.random(n) < 0.5, -1, 1).astype(dtype),
    )


# -- a step of gradient descent of a network ---------------------------------------------------------------------------
def network_step(x, y, w1, b1, w2, b2):
    """One step down the mean squared error of a network with one hidden layer, derivatives by hand."""
    rate = x.dtype.type(RATE)
    hidden = np.maximum(x @ w1 + b1, 0)
    slope = (hidden @ w2 + b2 - y) * x.dtype.type(2 / y.size)
    back = np.where(hidden > 0, slope @ w2.T, 0)
    return (
        w1 - rate * (x.T @ back),
        b1 - rate * back.sum(0),
        w2 - rate * (hidden.T @ slope),
        b2 - rate * slope.sum(0),
    )


def differentiated_step(module, np):
    def loss(parameters, x, y):
        w1, b1, w2, b2 = parameters
        return np.mean((np.maximum(x @ w1 + b1, 0) @ w2 + b2 - y) ** 2)

    gradient = module.grad(loss)

    def step(x, y, *parameters):
        return tuple(p - RATE * g for p, g in zip(parameters, gradient(parameters, x, y), strict=True))

    return module.jit(step)


def jax_step():
    import jax
    import jax.numpy as jnp

    return differentiated_step(jax, jnp)


def tracejit_step():
    import tracejit as tj

    return differentiated_step(tj, np)


def numba_step():
    import numba

    @numba.njit(fastmath=True)
    def step(x, y, w1, b1, w2, b2):
        rate, scale, zero = x.dtype.type(RATE), x.dtype.type(2 / y.size), x.dtype.type(0)
        hidden = np.dot(x, w1)
        for i in range(hidden.shape[0]):
            for j in range(hidden.shape[1]):
                hidden[i, j] = max(hidden[i, j] + b1[j], zero)
        slope = np.dot(hidden, w2)
        for i in range(slope.shape[0]):
            for j in range(slope.shape[1]):
                slope[i, j] = (slope[i, j] + b2[j] - y[i, j]) * scale
        back = np.dot(slope, w2.T)
        for i in range(back.shape[0]):
            for j in range(back.shape[1]):
                if hidden[i, j] <= zero:
                    back[i, j] = zero
        return (
            w1 - rate * np.dot(x.T, back),
            b1 - rate * back.sum(0),
            w2 - rate * np.dot(hidden.T, slope),
            b2 - rate * slope.sum(0),
        )

    return step


def network(rng, size, dtype):
    rows, inner, width, outer = size
    shapes = [(rows, inner), (rows, outer), (inner, width), (width,), (width, outer), (outer,)]
    return tuple((rng.normal(size=s) / np.sqrt(s[0] if k in (2, 4) else 1)).astype(dtype) for k, s in enumerate(shapes))


# -- a recurrent layer over time ---------------------------------------------------------------------------------------
def lstm(x, wx, wh, b):
    """The last state of a long short-term memory of one sequence: x of (steps, inputs)."""
    size = wh.shape[0]
    h, c = np.zeros(size, x.dtype), np.zeros(size, x.dtype)
    for t in range(x.shape[0]):
        gates = x[t] @ wx + h @ wh + b
        i, f, o = (1 / (1 + np.exp(-gates[k * size : (k + 1) * size])) for k in (0, 1, 2))
        c = f * c + i * np.tanh(gates[3 * size :])
        h = o * np.tanh(c)
    return h, c


def jax_lstm():
    import jax
    import jax.numpy as jnp

    def run(x, wx, wh, b):
        def step(state, row):
            h, c = state
            i, f, o, g = jnp.split(row @ wx + h @ wh + b, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros(wh.shape[0], x.dtype)
        return jax.lax.scan(step, (zero, zero), x)[0]

    return jax.jit(run)


def numba_lstm():
    import numba

    @numba.njit(fastmath=True)
    def run(x, wx, wh, b):
        size = wh.shape[0]
        h, c = np.zeros(size, x.dtype), np.zeros(size, x.dtype)
        one = x.dtype.type(1)
        for t in range(x.shape[0]):
            gates = np.dot(x[t], wx) + np.dot(h, wh) + b
            for k in range(size):
                i = one / (one + np.exp(-gates[k]))
                f = one / (one + np.exp(-gates[size + k]))
                o = one / (one + np.exp(-gates[2 * size + k]))
                c[k] = f * c[k] + i * np.tanh(gates[3 * size + k])
                h[k] = o * np.tanh(c[k])
        return h, c

    return run


def sequence(rng, size, dtype):
    inputs, width = size
    return tuple(
        (rng.normal(size=s) * scale).astype(dtype)
        for s, scale in (
            ((STEPS, inputs), 1),
            ((inputs, 4 * width), inputs**-0.5),
            ((width, 4 * width), width**-0.5),
            ((4 * width,), 0.1),
        )
    )


LAYERS = {"128x784-512": (128, 784, 512, 10)}
LABELLED = {"1e3x20": (1000, 20), "1e5x100": (100_000, 100)}

WORKLOADS = [
    Workload(
        "logistic_gradient",
        LABELLED,
        labelled,
        logistic_gradient,
        {"numba": numba_logistic, "jax": jax_logistic, "tracejit": tracejit_logistic},
    ),
    Workload("logistic_gradient_by_hand", LABELLED, labelled, logistic_gradient_transposed, {"numba": numba_logistic}),
    Workload(
        "network_step",
        LAYERS,
        network,
        network_step,
        {"numba": numba_step, "jax": jax_step, "tracejit": tracejit_step},
        ("f4",),
    ),
    Workload(
        "network_step_by_hand",
        LAYERS,
        network,
        network_step,
        {"numba": numba_step},
        ("f4",),
    ),
    Workload("lstm", {"256": (256, 256)}, sequence, lstm, {"numba": numba_lstm, "jax": jax_lstm}, ("f4",)),
]
