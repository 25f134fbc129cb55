"""Names with two underscores that mean something to Python or to NumPy; any other is an attribute of the user's."""

from __future__ import annotations

from types import FunctionType, MethodType, ModuleType

__all__ = ["is_special"]

_KINDS: tuple[type, ...] = (
    object, type, FunctionType, MethodType, ModuleType, property, int, float, complex, str, bytes, list, tuple, dict,
    set, BaseException, super, memoryview, slice,
)  # fmt: skip
_OTHERS = """
    abstractmethods aenter aexit aiter anext annotate annotate_func annotations_cache await bytes cached class_getitem
    classcell classdictcell conditional_annotations copy dataclass_fields dataclass_params deepcopy del delete enter
    exit fspath getattr getinitargs getnewargs getstate instancecheck isabstractmethod length_hint match_args members
    missing mro_entries namespace new_member objclass origin orig_bases orig_class parameters path post_init prepare
    real replace reversed round set set_name setstate signature slots slotnames static_attributes firstlineno
    subclasscheck substitute trunc ceil floor type_params unpacked value2member_map weakref wrapped builtins file debug
    attrs_attrs attrs_init attrs_own_setattr attrs_post_init attrs_pre_init attrs_props protocol_attrs final override
    callable_proto_members_only non_callable_proto_members deprecated required_keys optional_keys total no_type_check
"""
_PYTHONS = frozenset({name for kind in _KINDS for name in dir(kind) if name[:2] == "__"}) | {
    f"__{word}__" for word in _OTHERS.split()
}
_PREFIXES = ("__array", "__dlpack", "__cuda", "__numpy", "__attr_")


def is_special(name: str) -> bool:
    """Whether a name is one that Python, NumPy or attrs give a meaning.

    >>> is_special("__add__"), is_special("__array_ufunc__"), is_special("__rate__"), is_special("rate")
    (True, True, False, False)
    """
    return name[:2] == "__" and (name in _PYTHONS or name.startswith(_PREFIXES))
