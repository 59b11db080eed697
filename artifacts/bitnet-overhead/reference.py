"""The slow definition: exact integer products in float64; see `shared/bitnet_reference.py`."""

from shared.bitnet_reference import codes_of, layer, step, ternary_of

__all__ = ["codes_of", "layer", "step", "ternary_of"]
