"""A model behind an address, as a black box."""

from __future__ import annotations

import hashlib
import json
from math import prod
from typing import Any

import numpy as np
import torch

from diffgen.config import DEFAULT_REMOTE, RemoteConfig
from diffgen.errors import ServiceError, UserError
from diffgen.models.base import BlackBox
from diffgen.models.graphs import declared_outputs, wanted_outputs
from diffgen.models.inputs import as_tensor
from diffgen.models.model_settings import ModelSettings
from diffgen.models.remote.address import Address
from diffgen.models.remote.protocol import (
    BINARY_EXTENSION,
    FLOATING,
    HEADER_LENGTH,
    INPUTS,
    NUMBERS,
    Garbled,
    Metadata,
    TensorSpec,
    decode_response,
    encode_request,
    read_metadata,
    read_object,
)
from diffgen.models.remote.server import Refused, Reply, Server
from diffgen.models.remote.store import RemoteStore
from diffgen.models.wording import counted

_OWN_ERRORS_WHEN_PREPARED = 2  # a wrong shape may be answered with HTTP 500, each time
_SHOWN = 64  # letters of a datatype or shape in a message


class RemoteModel(BlackBox):
    """A model with one image input that a server answers for, in the Open Inference Protocol v2 over HTTP.

    Metadata say what it takes: (N, C, H, W), (N, H, W, C), or (N, C * H * W) for a model of flat vectors. A declared
    batch size becomes ``fixed_batch``; where the server tells its largest batch (Triton), ``batch_size`` is at most
    that. Tensors travel as bytes if the server offers the extension for it, else as JSON.

    Args:
        settings: name, device and so on. For a model that takes UINT8, ``scale`` becomes "0..255".
        remote: how it is asked; the rest is as in ``DEFAULT_REMOTE``.

    Raises:
        UserError: the server does not answer or refuses, does not speak the protocol, has no such model, or the model
            takes or gives something else.

    Attributes:
        digest: of the address and what the server says of the model; see docs/decisions/013-remote-models.md.
        binary: whether tensors travel as bytes.
    """

    format = "a remote model (Open Inference Protocol v2)"

    def __init__(self, address: Address, settings: ModelSettings, remote: RemoteConfig) -> None:
        super().__init__(settings)
        self.url = str(address)
        self._input_device = torch.device("cpu")
        self._address = address
        self.server = Server(address.origin, self.name, remote.over(DEFAULT_REMOTE))
        self.answers: RemoteStore = RemoteStore(
            self.name,
            remote.query_budget,
            retried=lambda: self.server.retried,
            fixed_batch=lambda: self.fixed_batch,
        )
        try:
            extensions = self._extensions()
            self._metadata = self._read_metadata()
            largest = self._largest_batch() if "model_configuration" in extensions else None
        except ServiceError as error:
            raise UserError(str(error)) from error
        self.binary = BINARY_EXTENSION in extensions
        self.digest = _identity(address, self._metadata)
        self._input = self._single_input()
        self._declare_input(
            [[side if side > 0 else None for side in self._input.shape]],
            mend="let the server take (N, C, H, W), (N, H, W, C) or flat (N, C * H * W), the number of images first",
            bytes_alone=self._input.datatype == "UINT8",
        )
        self._check_outputs()
        if largest is not None:
            self.batch_size = min(self.batch_size, largest)

    # -- what the server says of it ----------------------------------------------------------------------------------

    def _extensions(self) -> list[str]:
        """What the server offers; nothing where it does not say."""
        try:
            found = self.server.ask(self._address.base, lambda reply: read_object(reply.body).get("extensions"))
        except Refused:
            return []
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []

    def _read_metadata(self) -> Metadata:
        try:
            return self.server.ask(self._address.path, lambda reply: read_metadata(reply.body))
        except Refused as refused:
            raise UserError(
                f"The server {self._address.origin} does not know the model {self._address.name} at "
                f"{self._address.path} ({refused}); check its name and version."
            ) from refused

    def _largest_batch(self) -> int | None:
        """The largest batch that Triton's configuration of the model allows; None for no limit that is known."""
        try:
            found = self.server.ask(f"{self._address.path}/config", lambda reply: read_object(reply.body))
        except Refused:
            return None
        largest = found.get("max_batch_size")
        return largest if type(largest) is int and largest > 0 else None

    def _single_input(self) -> TensorSpec:
        inputs = self._metadata.inputs
        if len(inputs) != 1:
            names = ", ".join(each.name for each in inputs)
            said = f"takes {len(inputs)} inputs ({names})" if inputs else "does not say what it takes"
            raise UserError(
                f"Model {self.name} {said}; let its metadata on the server name one input, the images, with its "
                "datatype and shape."
            )
        if inputs[0].datatype not in INPUTS:
            raise UserError(
                f"Model {self.name} takes {inputs[0].datatype[:_SHOWN]}, which images cannot be sent as; let it take "
                f"one of {', '.join(INPUTS)}."
            )
        return inputs[0]

    def _check_outputs(self) -> None:
        outputs = {each.name: each for each in self._metadata.outputs}
        if not outputs:
            return
        shapes = {name: [side if side > 0 else None for side in each.shape] for name, each in outputs.items()}
        self.declare(declared_outputs(self.preprocessing, shapes))
        chosen = outputs[self._wanted(list(outputs))[0]]
        # a map of three axes and more may hold the classes themselves
        if self.classifies and len(chosen.shape) < 3 and chosen.datatype not in FLOATING:
            raise UserError(
                f"Model {self.name} gives {chosen.datatype[:_SHOWN]} values in its output {chosen.name}; let it give "
                "floating point probabilities or logits, not labels or quantized numbers."
            )

    # -- as a black box ----------------------------------------------------------------------------------------------

    def ask_alone(self) -> None:
        super().ask_alone()
        # what it answered before was about batches
        self.answers.occasion = "one image at a time"

    def _ask(self, batch: torch.Tensor) -> object:
        pixels = self._pixels(batch)
        about = f"{self.digest}\n{self.preprocessing.output}"
        if self.classifies:
            return self.answers.asked(pixels, about, self._from_server)
        if self._reader.head is None:
            return self._from_server(pixels)
        # boxes and maps are kept as they were read: that is less, and of one length whatever the outputs are
        about = f"{about}\n{self.image_shape}\n{self.preprocessing}\n{self._reader.head}"
        return self.answers.asked(pixels, about, self._read)

    def _read(self, pixels: np.ndarray[Any, Any]) -> torch.Tensor:
        answer = self._from_server(pixels)
        return super()._rows(answer, max(len(pixels), self.fixed_batch or 0))[: len(pixels)]

    def _rows(self, answer: object, count: int) -> torch.Tensor:
        if self.classifies or self._reader.head is None:
            return super()._rows(answer, count)
        assert isinstance(answer, torch.Tensor)
        return answer  # of _read

    def _pixels(self, batch: torch.Tensor) -> np.ndarray[Any, Any]:
        """The batch as it is sent. UserError if the model declares another shape."""
        pixels = batch.numpy().astype(INPUTS[self._input.datatype], copy=False)
        wanted, sides = self._input.shape[1:], pixels.shape[1:]
        if len(wanted) != len(sides) or any(want not in (side, -1) for want, side in zip(wanted, sides, strict=True)):
            raise UserError(
                f"Model {self.name} takes {_said(wanted)} for one image but the data's images have {_said(sides)}; "
                "add --size or --channels to convert them for it, or compare it on data of that shape."
            )
        return np.ascontiguousarray(pixels)

    def _from_server(self, pixels: np.ndarray[Any, Any]) -> Any:
        """What the server answers to (N, ...), as a tensor or several by name if it is numbers.

        Rows of a classifier are cut to N; other answers are those to as many images as the model takes at once.
        """
        count = len(pixels)
        missing = (self.fixed_batch or count) - count
        if missing > 0:
            pixels = np.concatenate([pixels, np.repeat(pixels[-1:], missing, axis=0)])
        outputs = self._outputs_asked_for()
        body, headers = encode_request(self._input, pixels, outputs=outputs, binary=self.binary)
        preparing = self.num_classes == 0
        try:
            answer = self.server.ask(
                f"{self._address.path}/infer",
                lambda reply: self._numbers(reply, outputs, len(pixels)),
                body=body,
                headers=headers,
                before=lambda: self.answers.spend(len(pixels)),
                unsent=lambda: self.answers.count(-len(pixels)),
                own_errors=_OWN_ERRORS_WHEN_PREPARED if preparing else None,
            )
        except Refused as refused:
            if refused.status == 413:
                raise ServiceError(
                    f"The server takes no {counted(len(pixels), 'image')} at once for model {self.name} ({refused}); "
                    "give a smaller --batch-size."
                ) from refused
            if refused.status == 404:
                raise ServiceError(
                    f"The server no longer has model {self.name} ({refused}); load it there."
                ) from refused
            words = f"The server refuses to answer {counted(len(pixels), 'image')} for model {self.name} ({refused})"
            if preparing:
                raise UserError(f"{words}; see that it takes such images.") from refused
            raise ServiceError(f"{words}; see the server's log.") from refused
        if self.classifies and isinstance(answer, torch.Tensor) and answer.ndim and len(answer) == len(pixels):
            return answer[:count]
        return answer

    def _outputs_asked_for(self) -> list[str]:
        """Names of the outputs that the server is to give; none where its metadata name none, and it gives all."""
        names = [each.name for each in self._metadata.outputs if self.classifies or each.datatype in NUMBERS]
        if names:
            return self._wanted(names)
        return [self.preprocessing.output] if self.preprocessing.output else []

    def _wanted(self, names: list[str]) -> list[str]:
        return wanted_outputs(self.name, names, self.preprocessing.output or "", everything=not self.classifies)

    def _numbers(self, reply: Reply, outputs: list[str], count: int) -> object:
        """The outputs that are to be read.

        Raises:
            Garbled: one is not in the answer, or of another shape than those to ``count`` images were before.
        """
        found = decode_response(reply.body, reply.headers.get(HEADER_LENGTH))
        missing = [name for name in outputs if name not in found]
        if missing:
            raise Garbled(f"its answer has no output {missing[0]}")
        arrays = {name: found[name] for name in outputs or found}
        if len(arrays) != 1:
            return {name: _tensor(each) for name, each in arrays.items() if each.dtype != object}
        (array,) = arrays.values()
        if self.num_classes and self.classifies and array.shape != (count, self._columns):
            raise Garbled(f"its answer has the shape {list(array.shape)[:4]}")
        return array if array.dtype == object else _tensor(array)


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    return as_tensor(array.astype(array.dtype.newbyteorder("="), copy=False))


def _identity(address: Address, metadata: Metadata) -> str:
    """SHA-256 of where a model is and what its server says of it, as 64 hexadecimal digits.

    Where the address names no version, the versions that the server has are part of it: another one may answer then.
    """
    said = {
        "address": str(address),
        "name": metadata.name,
        "platform": metadata.platform,
        "versions": sorted(metadata.versions) if address.version is None else [address.version],
        "tensors": [
            [(each.name, each.datatype, each.shape) for each in tensors]
            for tensors in (metadata.inputs, metadata.outputs)
        ],
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _said(sides: tuple[int, ...]) -> str:
    """``784 values`` or ``1x28x28``."""
    if len(sides) == 1:
        return f"{prod(sides)} values"
    return "x".join("?" if side < 0 else str(side) for side in sides)
