"""Messages: every bit arrives, by JSON and as bytes, and no answer raises anything but Garbled."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diffgen.models.remote.protocol import (
    INPUTS,
    Garbled,
    TensorSpec,
    decode_response,
    encode_request,
    read_metadata,
)

_FINITE = {"allow_nan": False, "allow_infinity": False}


def specs(datatype: str) -> TensorSpec:
    return TensorSpec('in"put', datatype, (-1,))


@pytest.mark.parametrize("datatype", INPUTS)
@given(data=st.data())
def test_what_is_sent_is_read_again_in_every_bit(datatype: str, data: st.DataObject) -> None:
    kind = np.dtype(INPUTS[datatype])
    elements = st.integers(0, 255) if datatype == "UINT8" else st.floats(width=kind.itemsize * 8, **_FINITE)
    pixels = data.draw(arrays(kind, st.tuples(st.integers(1, 3), st.integers(1, 9)), elements=elements))
    body, headers = encode_request(specs(datatype), pixels, outputs=["a"], binary=False)
    message = json.loads(body)
    (sent,) = message["inputs"]
    assert (sent["name"], sent["datatype"], sent["shape"]) == ('in"put', datatype, list(pixels.shape))
    assert np.array(sent["data"], dtype=kind).tobytes() == pixels.tobytes()
    assert message["outputs"] == [{"name": "a"}]
    assert headers == {"Content-Type": "application/json"}
    body, headers = encode_request(specs(datatype), pixels, outputs=[], binary=True)
    size = int(headers["Inference-Header-Content-Length"])
    (sent,) = json.loads(body[:size])["inputs"]
    assert body[size:] == pixels.tobytes()
    assert sent["parameters"]["binary_data_size"] == pixels.nbytes


def answer(**changes: Any) -> dict[str, Any]:
    output = {"name": "p", "datatype": "FP32", "shape": [2, 2], "data": [0.1, 0.9, 1, 0], **changes}
    return {"outputs": [{name: value for name, value in output.items() if value is not None}]}


def test_flat_and_nested_answers_are_one() -> None:
    nested = [[0.1, 0.9], [1, 0]]
    for given_ in (answer(), answer(data=nested)):
        found = decode_response(json.dumps(given_).encode(), None)["p"]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.array(nested, np.float32))


def test_null_is_nan() -> None:
    found = decode_response(json.dumps(answer(data=[None, 1, 2, 3])).encode(), None)["p"]
    assert np.isnan(found[0, 0]) and np.isfinite(found.ravel()[1:]).all()


def test_several_outputs_as_bytes_follow_each_other() -> None:
    first, second = np.arange(4, dtype=np.float32).reshape(2, 2), np.arange(3, dtype=np.int64)
    head = json.dumps(
        {
            "outputs": [
                {"name": "a", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": 16}},
                {"name": "j", "datatype": "UINT8", "shape": [1], "data": [7]},
                {"name": "b", "datatype": "INT64", "shape": [3], "parameters": {"binary_data_size": 24}},
            ]
        }
    ).encode()
    found = decode_response(head + first.tobytes() + second.tobytes(), str(len(head)))
    np.testing.assert_array_equal(found["a"], first)
    np.testing.assert_array_equal(found["b"], second)
    assert found["j"].tolist() == [7]


@pytest.mark.parametrize(
    "spoilt",
    [
        answer(data=[1, 2, 3]),
        answer(shape=[-2, -2]),
        answer(shape=[2, 2.0]),
        answer(shape="22"),
        answer(data=None),
        answer(data=[1, 2, 3, "x"]),
        answer(data=[[1, 2], [3]]),
        answer(name=3),
        answer(name="\x1b[31m"),
        answer(datatype=["FP32"]),
        answer(datatype="UINT8", data=[1, 2, 3, 1000]),
        answer(parameters={"binary_data_size": 16}),
        answer(parameters=3),
        {"outputs": 3},
        {"error": "x"},
        [],
    ],
)
def test_an_answer_that_contradicts_itself_is_garbled(spoilt: object) -> None:
    with pytest.raises(Garbled):
        decode_response(json.dumps(spoilt).encode(), None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["FP32", "BYTES"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["outputs", "name", "datatype", "shape", "data", "parameters", "inputs"]), inner
        )
    ),
    max_leaves=12,
)


@given(
    JSON
    | st.builds(lambda each: {"outputs": [each]}, JSON)
    | st.builds(lambda each: {"name": "x", "inputs": each}, JSON)
)
@example({"outputs": [{"name": "p", "datatype": "BYTES", "shape": [1], "data": [["a"], "b"]}]})
@example({"outputs": [{"name": "p", "datatype": "FP32", "shape": [1], "data": [10**400]}]})
def test_no_json_raises_anything_but_garbled(value: object) -> None:
    for read in (read_metadata, lambda body: decode_response(body, None)):
        with contextlib.suppress(Garbled):
            read(json.dumps(value).encode())


@given(st.binary(max_size=60), st.none() | st.text(max_size=4) | st.integers(-2, 60).map(str))
def test_no_bytes_raise_anything_but_garbled(body: bytes, length: str | None) -> None:
    for read in (read_metadata, lambda each: decode_response(each, length)):
        with contextlib.suppress(Garbled):
            read(body)
