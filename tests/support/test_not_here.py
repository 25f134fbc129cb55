"""Names and settings of JAX's that there are not: what is said of them."""

import pytest

import tracejit as tj
from tracejit.support.errors import OptionError
from tracejit.support.not_here import NOT_HERE


@pytest.mark.parametrize("name", sorted(NOT_HERE))
def test_a_name_that_there_is_not_says_what_to_do_instead(name: str):
    for module in (tj, tj.lax):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as error:
            getattr(module, name)
        assert not hasattr(module, name)
        assert len(str(error.value)) > 60


def test_other_names_are_unknown_as_anywhere():
    with pytest.raises(AttributeError, match=r"^module 'tracejit\.lax' has no attribute 'nothing'$"):
        tj.lax.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_settings_are_ours_or_true_of_both():
    before = tj.config.unroll, tj.config.backend
    tj.config.update("jax_enable_x64", True)
    tj.config.update("jax_platforms", "cpu")
    tj.config.update("unroll", 7)
    assert (tj.config.unroll, tj.config.backend) == (7, "cpu")
    tj.config.unroll, tj.config.backend = before
    with pytest.raises(OptionError, match="jax_enable_x64=False is not to be had: dtypes are NumPy's"):
        tj.config.update("jax_enable_x64", False)
    with pytest.raises(OptionError, match="no setting 'jax_nothing'"):
        tj.config.update("jax_nothing", 1)
