"""What MLServer runs in its own environment: an ONNX file, asked as it stands."""

from __future__ import annotations

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OnnxModel(MLModel):
    """The file that ``parameters.uri`` names."""

    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            self.settings.parameters.uri, options, providers=["CPUExecutionProvider"]
        )
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        pixels = NumpyCodec.decode_input(payload.inputs[0])
        answer = self._session.run(None, {self._session.get_inputs()[0].name: pixels})[0]
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("logits", answer)])
