"""From the description of a Keras network to the network, without Keras' own deserialization.

That one imports modules by name and runs code out of the file for some layers, and its safe mode has been got around
more than once. A classifier of images needs none of it: here each layer is looked up in a list, and its settings may
be numbers, words and lists of these only.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

from diffgen.models.untrusted.archives import UntrustedError, declares_too_much

_LAYERS = frozenset(
    {
        *("InputLayer", "Dense", "Activation", "Flatten", "Reshape", "Permute", "Dropout", "RepeatVector"),
        *("Conv2D", "DepthwiseConv2D", "SeparableConv2D", "Conv2DTranspose", "UpSampling2D"),
        *("ZeroPadding2D", "Cropping2D", "MaxPooling2D", "AveragePooling2D"),
        *("GlobalAveragePooling2D", "GlobalMaxPooling2D", "GlobalAveragePooling1D", "GlobalMaxPooling1D"),
        *("BatchNormalization", "LayerNormalization", "GroupNormalization", "UnitNormalization", "RMSNormalization"),
        *("ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax"),
        *("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot"),
        *("SpatialDropout2D", "GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization"),
        *("MultiHeadAttention", "Attention", "Rescaling", "Normalization", "Resizing", "CenterCrop"),
        *("RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast", "RandomBrightness"),
        *("RandomCrop", "LSTM", "GRU", "SimpleRNN", "Conv1D", "MaxPooling1D", "AveragePooling1D"),
    }
)
_MODELS = ("Sequential", "Functional", "Model")
_ACTIVATIONS = frozenset(
    {
        *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "swish", "mish", "glu", "tanh"),
        *("sigmoid", "hard_sigmoid", "log_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "softmax", "log_softmax"),
        *("softplus", "softsign", "exponential", "linear", "squareplus", "soft_shrink", "hard_shrink", "tanh_shrink"),
    }
)
_TYPES = frozenset({"float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16", "uint8"})
# Of no matter for a network that is only asked, or said in another place.
_IGNORED = frozenset({"batch_input_shape", "input_shape", "input_dim", "input_length", "build_config"})
_IGNORED_ENDS = ("_initializer", "_regularizer", "_constraint")
# Names of Keras 2 that Keras 3 has changed.
_RENAMED = {("LeakyReLU", "alpha"): "negative_slope", ("InputLayer", "batch_input_shape"): "batch_shape"}
_DEEPEST = 20


class KerasBuilder:
    """Makes networks from their descriptions.

    Args:
        version: of the Keras that wrote the file, such as "2.3.1".
        weights: numbers in all weights of the file; a layer that wants more is refused before it takes the memory.
    """

    def __init__(self, version: str, weights: int) -> None:
        import keras

        self._keras = keras
        self._old = version.startswith(("1.", "2."))
        self._weights = weights

    def model(self, description: Any, depth: int = 0) -> Any:
        """A keras.Model for ``{"class_name": ..., "config": ...}``, with weights of zero.

        Raises:
            UntrustedError: it has parts that are not in the list.
            Exception: it is damaged.
        """
        if depth > _DEEPEST:
            raise UntrustedError(f"models are nested in it more than {_DEEPEST} deep")
        kind, config = _kind_and_config(description)
        if kind not in _MODELS:
            raise UntrustedError(f"its network is a {kind[:60]!r}, which is not part of Keras")
        if kind == "Sequential":
            return self._sequential(config, depth)
        return self._functional(config, depth)

    def _sequential(self, config: Any, depth: int) -> Any:
        entries = config if isinstance(config, list) else config["layers"]
        model = self._keras.Sequential(name=None if isinstance(config, list) else str(config["name"]))
        first = entries[0]
        shape = first["config"].get("batch_input_shape") if isinstance(first["config"], dict) else None
        if _kind_and_config(first)[0] != "InputLayer" and shape is not None:
            model.add(self._keras.layers.InputLayer(batch_shape=tuple(_plain(shape))))
        for entry in entries:
            model.add(self._layer(entry, depth))
        built = None if isinstance(config, list) else config.get("build_input_shape")
        if not model.built and built is not None:
            model.build(tuple(_plain(built)))
        return model

    def _functional(self, config: Any, depth: int) -> Any:
        layers = {str(entry["name"]): self._layer(entry, depth) for entry in config["layers"]}
        # layer -> the outputs of each call, a layer of inputs counts as called
        outputs: dict[str, list[list[Any]]] = {
            name: [[layer.output]] if isinstance(layer, self._keras.layers.InputLayer) else []
            for name, layer in layers.items()
        }
        calls = {str(entry["name"]): list(entry["inbound_nodes"]) for entry in config["layers"]}
        while any(calls.values()):
            before = sum(map(len, calls.values()))
            for name, waiting in calls.items():
                while waiting and all(_is_there(place, outputs) for place in _places(waiting[0])):
                    answer = self._call(layers[name], waiting.pop(0), outputs)
                    outputs[name].append(list(answer) if isinstance(answer, list | tuple) else [answer])
            if before == sum(map(len, calls.values())):
                raise ValueError("its layers wait for each other")
        inputs = [_tensor(place, outputs) for place in _listed(config["input_layers"])]
        answers = [_tensor(place, outputs) for place in _listed(config["output_layers"])]
        model: Any = self._keras.Model(inputs, answers if len(answers) > 1 else answers[0], name=str(config["name"]))
        return model

    def _call(self, layer: Any, node: Any, outputs: dict[str, list[list[Any]]]) -> Any:
        if isinstance(node, dict):  # Keras 3
            arguments = [_with_tensors(each, outputs) for each in node["args"]]
            settings = {str(name): _with_tensors(value, outputs) for name, value in node["kwargs"].items()}
        else:
            tensors = [_tensor(place, outputs) for place in _listed(node)]
            arguments = [tensors if len(tensors) > 1 else tensors[0]]
            settings = {key: _plain(value) for key, value in _listed(node)[0][3].items()} if len(node[0]) > 3 else {}
        return layer(*arguments, **{name: value for name, value in settings.items() if value is not None})

    def _layer(self, entry: Any, depth: int) -> Any:
        kind, config = _kind_and_config(entry)
        if kind in _MODELS:
            return self.model(entry, depth + 1)
        if kind not in _LAYERS:
            raise UntrustedError(f"its network has a layer {kind[:60]!r}, which can do more than compute or is unknown")
        make = getattr(self._keras.layers, kind)
        return make(**self._settings(kind, make, config))

    def _settings(self, kind: str, make: Any, config: dict[str, Any]) -> dict[str, Any]:
        known = set(_parameters(make))
        settings: dict[str, Any] = {name: self._zeros for name in known if name.endswith("_initializer")}
        for given, value in config.items():
            name = _RENAMED.get((kind, given), given)
            if name in _IGNORED or name.endswith(_IGNORED_ENDS):
                continue
            if name.endswith("activation"):
                settings[name] = self._activation(value)
            elif name == "dtype":
                settings[name] = _dtype(value)
            elif name == "quantization_config":
                _check_quantization(value)
            elif name in known or name == "name":
                settings[name] = _plain(value)
            elif value and (name, value) != ("groups", 1):  # what is not said or switched off makes no difference
                raise UntrustedError(f"its layer {kind} has the setting {given[:60]!r}, which Keras 3 does not have")
        axis = settings.get("axis")
        if kind == "BatchNormalization" and isinstance(axis, list) and len(axis) == 1:
            settings["axis"] = axis[0]
        return settings

    def _activation(self, value: Any) -> Any:
        if isinstance(value, dict) and value.get("class_name") in _LAYERS:
            return self._layer(value, 0)
        name = value.get("config") if isinstance(value, dict) else value
        if name is None:
            return None
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise UntrustedError(f"its network has the activation {str(name)[:60]!r}, which is not of Keras itself")
        if self._old and name == "hard_sigmoid":  # Keras 3 means another function by it
            return self._old_hard_sigmoid
        return name

    def _old_hard_sigmoid(self, values: Any) -> Any:
        return self._keras.ops.clip(0.2 * values + 0.5, 0.0, 1.0)

    def _zeros(self, shape: Any, dtype: Any = None) -> Any:
        if math.prod(shape) > self._weights:
            raise UntrustedError("its network is larger than its weights")
        return self._keras.ops.zeros(shape, dtype)


def _kind_and_config(entry: Any) -> tuple[str, Any]:
    """The class and the settings of a part, if its class is one of Keras' own."""
    kind, module, registered = str(entry["class_name"]), entry.get("module"), entry.get("registered_name")
    own = module is None or str(module).split(".")[0] in ("keras", "tensorflow")
    if not own or registered not in (None, kind):
        raise UntrustedError(f"its network has a part {str(registered or kind)[:60]!r} that is not of Keras itself")
    return kind, entry["config"]


def _parameters(make: Any) -> Iterator[str]:
    """Names of the settings of a layer, those of its base classes too."""
    for each in make.__mro__:
        if "__init__" in vars(each):
            parameters = inspect.signature(each.__init__).parameters.values()
            yield from (one.name for one in parameters if one.kind is not one.VAR_KEYWORD and one.name != "self")


def _dtype(value: Any) -> Any:
    """The name of a type; of 8 bits made from another one, ``int8_from_float32``."""
    settings = value["config"] if isinstance(value, dict) else {"name": value}
    name = settings.get("source_name" if settings.get("mode") == "int8" else "name")
    if name is not None and name not in _TYPES:
        raise UntrustedError(f"its network computes in {str(name)[:60]!r}, which is not supported")
    return f"int8_from_{name}" if settings.get("mode") == "int8" else name


def _check_quantization(value: Any) -> None:
    """See that it is the way in which Keras quantizes to 8 bits unless told otherwise; nothing of it is used."""
    if value is None:
        return
    quantizer = value["config"]["activation_quantizer"]
    usual = {"value_range": [-127, 127], "epsilon": 1e-07, "output_dtype": "int8"}
    if (
        value["class_name"] != "Int8QuantizationConfig"
        or value["config"]["weight_quantizer"] is not None
        or (quantizer is not None and (quantizer["class_name"], quantizer["config"]) != ("AbsMaxQuantizer", usual))
    ):
        raise UntrustedError("it is quantized in a way of its own")


def _plain(value: Any) -> Any:
    """The value itself, if it is a number, a word, or a list of these."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UntrustedError(f"its network has a setting {str(value)[:60]!r}, which is more than a number or a word")


# -- the calls in a functional network: [name, call, output, ...] says which tensor is meant -------------------------


def _listed(places: Any) -> list[Any]:
    """A single place as a list of one."""
    return [places] if places and isinstance(places[0], str) else list(places)


def _is_place(value: Any) -> bool:
    return isinstance(value, dict) and value.get("class_name") == "__keras_tensor__"


def _places(node: Any) -> list[Any]:
    """All tensors that a call takes."""
    if not isinstance(node, dict):
        return _listed(node)
    found, pending = [], [node["args"], node["kwargs"]]
    while pending:
        current = pending.pop()
        if _is_place(current):
            found.append(current["config"]["keras_history"])
        elif isinstance(current, dict):
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
    return found


def _is_there(place: Any, outputs: dict[str, list[list[Any]]]) -> bool:
    return int(place[1]) < len(outputs[str(place[0])])


def _tensor(place: Any, outputs: dict[str, list[list[Any]]]) -> Any:
    return outputs[str(place[0])][int(place[1])][int(place[2])]


def _with_tensors(value: Any, outputs: dict[str, list[list[Any]]]) -> Any:
    if _is_place(value):
        return _tensor(value["config"]["keras_history"], outputs)
    if isinstance(value, list):
        return [_with_tensors(each, outputs) for each in value]
    return _plain(value)


# -- HDF5 files ------------------------------------------------------------------------------------------------------
#
# They may point to other files on the machine (external links, external storage, virtual data sets), declare arrays
# that are far larger than themselves, and ask for filters that are loaded from libraries. Weights need none of that.

# deflate, shuffle and Fletcher's checksum belong to HDF5, LZF to h5py; others are loaded from libraries.
_FILTERS = {1, 2, 3, 32000}


def check_hdf5(file: Any, size: int) -> int:
    """See that a file holds plain arrays of its own.

    Args:
        file: an open h5py.File.
        size: bytes of it.

    Returns:
        Numbers in all arrays together.

    Raises:
        UntrustedError: it holds something else, or unpacks to many times its size.
        Exception: it is damaged; h5py raises half a dozen types.
    """
    import h5py

    groups, seen, arrays = [file], {_address(file)}, []
    while groups:
        group = groups.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise UntrustedError(f"{name[:60]!r} in it is a link to somewhere else")
            member = group[name]
            if _address(member) in seen:
                continue
            seen.add(_address(member))
            if isinstance(member, h5py.Group):
                groups.append(member)
            elif isinstance(member, h5py.Dataset):
                _check_array(name, member)
                arrays.append(member)
            else:
                raise UntrustedError(f"{name[:60]!r} in it is no array")
    if declares_too_much(sum(array.size * array.dtype.itemsize for array in arrays), size):
        raise UntrustedError("its arrays would unpack to many times its size")
    return sum(array.size for array in arrays)


def _check_array(name: str, array: Any) -> None:
    if array.external or array.is_virtual:
        raise UntrustedError(f"the array {name[:60]!r} in it lies in another file")
    if array.dtype.kind not in "fiub" and array.size:
        raise UntrustedError(f"the array {name[:60]!r} in it is not of numbers")
    plan = array.id.get_create_plist()
    if not {plan.get_filter(number)[0] for number in range(plan.get_nfilters())} <= _FILTERS:
        raise UntrustedError(f"the array {name[:60]!r} in it asks for a filter that is not part of HDF5")


def _address(member: Any) -> int:
    import h5py

    return int(h5py.h5o.get_info(member.id).addr)
