"""Distributions, as classes of functions, by the names of `scipy.stats` and the arguments of JAX's."""

from typing import Any

from tracejit.api.returning import returning_arrays
from tracejit.scipy.stats import order as _order, samples as _samples
from tracejit.scipy.stats.continuous import (
    beta as beta,
    cauchy as cauchy,
    chi2 as chi2,
    expon as expon,
    gamma as gamma,
    gennorm as gennorm,
    gumbel_l as gumbel_l,
    gumbel_r as gumbel_r,
    laplace as laplace,
    logistic as logistic,
    norm as norm,
    pareto as pareto,
    t as t,
    truncnorm as truncnorm,
    uniform as uniform,
    vonmises as vonmises,
    wrapcauchy as wrapcauchy,
)
from tracejit.scipy.stats.density import gaussian_kde as gaussian_kde
from tracejit.scipy.stats.discrete import (
    bernoulli as bernoulli,
    betabinom as betabinom,
    binom as binom,
    geom as geom,
    multinomial as multinomial,
    nbinom as nbinom,
    poisson as poisson,
)
from tracejit.scipy.stats.several import dirichlet as dirichlet, multivariate_normal as multivariate_normal

mode = returning_arrays(_order.mode)
rankdata = returning_arrays(_order.rankdata)
sem = returning_arrays(_samples.sem)


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
