"""Layer 8: JAX's lax names over tracejit's primitives.

Thin: operands of one dtype, shapes that fit; what `tracejit.numpy` promotes and broadcasts is written out here.
"""

from tracejit.lax.arrays import *  # noqa: F403
from tracejit.lax.control import *  # noqa: F403
from tracejit.lax.elementwise import *  # noqa: F403
from tracejit.lax.reductions import *  # noqa: F403
