"""Pytrees: nested tuples, lists, dicts, None, named tuples and registered classes,
with arrays and numbers at their ends.
"""

from tracejit.support.tree import TreeDef, flatten, map_tree, register_node, unflatten

__all__ = ["TreeDef", "flatten", "map_tree", "register_node", "unflatten"]
