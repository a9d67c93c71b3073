"""The regression gate: values that were measured, and apart from them conditions on these values."""
