"""Looks at model files that nobody vouches for, before and after a framework opens them.

The one entry: formats import from here alone. What is known of each framework's weak spots lies in the modules below.
"""

from diffgen.models.untrusted.archives import UntrustedError as UntrustedError
from diffgen.models.untrusted.archives import unpacks_too_far as unpacks_too_far
from diffgen.models.untrusted.exported_archive import check_program as check_program
from diffgen.models.untrusted.exported_archive import checked_copy as checked_copy
from diffgen.models.untrusted.keras_network import KerasBuilder as KerasBuilder
from diffgen.models.untrusted.keras_network import check_hdf5 as check_hdf5
from diffgen.models.untrusted.onnx_files import BYTES as BYTES
from diffgen.models.untrusted.onnx_files import VARINT as VARINT
from diffgen.models.untrusted.onnx_files import Field as Field
from diffgen.models.untrusted.onnx_files import MalformedError as MalformedError
from diffgen.models.untrusted.onnx_files import MissingWeightsError as MissingWeightsError
from diffgen.models.untrusted.onnx_files import external_files as external_files
from diffgen.models.untrusted.onnx_files import fields as fields
from diffgen.models.untrusted.pickle_program import holds_only_tensors as holds_only_tensors
from diffgen.models.untrusted.torchscript_archive import check_graphs as check_graphs
from diffgen.models.untrusted.torchscript_archive import checked_torchscript as checked_torchscript
from diffgen.models.untrusted.torchscript_archive import is_quantized as is_quantized
