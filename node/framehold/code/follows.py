"""Names of members that follow from other members, or that have no part in what code does: no digest has them."""

from __future__ import annotations

import types

NOISE = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__", "__signature__"),
        *("__static_attributes__", "__abstractmethods__", "_abc_impl", "__parameters__", "__dataclass_fields__"),
        *("__dataclass_params__", "__class_vars__", "__private_attributes__", "model_fields", "__annotate_func__"),
        *("__annotations_cache__", "__annotate__", "__annotations__", "__framehold_marks__"),
        # The first copy of an object leaves the one, and the first reading of its class's types the other.
        *("__slotnames__", "__attrs_types_resolved__"),
    }
)
"""Members of classes and functions that follow from others, or that have no part in what the code does."""
OF_ENUM = frozenset(
    {
        *("_member_names_", "_member_map_", "_member_type_", "_value2member_map_", "_unhashable_values_"),
        *("_unhashable_values_map_", "_hashable_values_", "_new_member_", "_use_args_", "_value_repr_", "_inverted_"),
        *("_all_bits_", "_flag_mask_", "_singles_mask_"),
    }
)
"""What an enum keeps beside its members. It follows from them, and grows while the enum is used."""
DERIVED = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
"""Types of members that follow from a class's slots and layout."""
OF_MODULE = frozenset({"__name__", "__package__"})
"""Globals that say which module a function is of. A later release may have renamed it."""
OF_FIELD = {"_attributes_set", "_qualifiers", "_original_assignment", "_original_annotation", "_complete"}
"""What a field of a model keeps beside its settings."""
HOOKS = {"__init_subclass__", "__pydantic_init_subclass__"}
"""Functions of a class that are called when a class is derived from it."""
REGISTRATION = "__fastmcp__"
"""The attribute in which FastMCP's decorators leave how a function was registered, its authorization among it. It is
neither digested nor written: `Registered.about` has what a call needs of it."""
