"""Looks at model files that nobody vouches for, before and after a framework opens them.

The one entry: formats import from here alone. What is known of each framework's weak spots lies in the modules below.
"""

from diffgen.models.untrusted.archives import UntrustedError, unpacks_too_far
from diffgen.models.untrusted.exported_archive import check_program, checked_copy
from diffgen.models.untrusted.keras_network import KerasBuilder, check_hdf5
from diffgen.models.untrusted.onnx_files import (
    BYTES,
    VARINT,
    Field,
    MalformedError,
    MissingWeightsError,
    external_files,
    fields,
)
from diffgen.models.untrusted.pickle_program import holds_only_tensors
from diffgen.models.untrusted.torchscript_archive import check_graphs, checked_torchscript, is_quantized

__all__ = [
    "BYTES",
    "VARINT",
    "Field",
    "KerasBuilder",
    "MalformedError",
    "MissingWeightsError",
    "UntrustedError",
    "check_graphs",
    "check_hdf5",
    "check_program",
    "checked_copy",
    "checked_torchscript",
    "external_files",
    "fields",
    "holds_only_tensors",
    "is_quantized",
    "unpacks_too_far",
]
