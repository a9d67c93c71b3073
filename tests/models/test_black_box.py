"""What every black box does, whatever file it came from."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import RunError, UserError
from diffgen.models import BlackBox, load
from diffgen.models.outputs import names_several_labels, outputs_in_words


def pick(values):
    """A model that gives fixed rows, as many as it is asked about."""
    return lambda pixels: np.asarray(values, dtype=np.float32)[: len(pixels)]


def prepared(model, images, **settings) -> BlackBox:
    box = load(model, **settings)
    box.prepare(images)
    return box


# --- the same network in every format


@pytest.fixture(params=["torchscript", "onnx", "onnx, fixed batch", "module", "callable", "export"])
def every_format(request, net, save_torchscript, save_onnx):
    if request.param == "torchscript":
        return save_torchscript(net)
    if request.param.startswith("onnx"):
        return save_onnx(net, fixed="fixed" in request.param)
    if request.param == "export":
        batch = torch.export.Dim("batch", min=1, max=4096)
        return torch.export.export(net, (torch.zeros(2, 1, 28, 28),), dynamic_shapes=({0: batch},)).module()
    return net if request.param == "module" else lambda pixels: net(torch.from_numpy(pixels)).detach().numpy()


def test_every_format_gives_the_same_probabilities(every_format, net, images, expected):
    many = np.random.default_rng(1).integers(0, 256, (300, 1, 28, 28), dtype=np.uint8)
    wanted = expected(net, many)
    box = prepared(every_format, images)

    assert (box.preprocessing.outputs, box.preprocessing.layout, box.num_classes) == ("logits", "nchw", 10)
    for count in (0, 1, 5, 300):
        array = box.predict(many[:count])
        tensor = box.predict(torch.from_numpy(many[:count]))
        assert isinstance(array, np.ndarray) and isinstance(tensor, torch.Tensor)
        assert array.dtype == np.float32 and array.shape == (count, 10)
        np.testing.assert_allclose(array, wanted[:count], atol=1e-5)
        np.testing.assert_array_equal(tensor.numpy(), array)
        np.testing.assert_allclose(array.sum(axis=1), 1, atol=1e-6)


def test_a_fixed_batch_is_found_and_padded(net, save_onnx, images, expected):
    box = prepared(save_onnx(net, (4, 1, 28, 28), fixed=True), images)
    assert box.fixed_batch == 4
    np.testing.assert_allclose(box.predict(images[:7]), expected(net, images[:7]), atol=1e-5)


def test_a_model_that_takes_single_images_only_is_asked_for_one_at_a_time(net, images, expected):
    def single(pixels):
        assert len(pixels) == 1, "one image, please"
        return net(torch.from_numpy(pixels)).detach()

    box = prepared(single, images)
    assert box.fixed_batch == 1
    np.testing.assert_allclose(box.predict(images), expected(net, images), atol=1e-5)


def test_batches_are_tried_only_as_far_as_memory_is_meant_for_them(images, monkeypatch):
    monkeypatch.setattr("diffgen.models.shapes._MAX_INPUT_BYTES", 2**20)
    sizes = []

    def refuse(pixels):
        sizes.append(pixels.nbytes)
        raise ValueError("not so large")

    with pytest.raises(UserError):
        prepared(refuse, images[:8], preprocessing=Preprocessing(size=(64, 64)))
    assert max(sizes) == 2**20


def test_the_result_may_be_changed_in_place(net, images):
    box = prepared(net, images)
    box.predict(torch.from_numpy(images)).mul_(2)
    box.predict(images)[:] = 0


def test_a_batch_larger_than_batch_size_is_cut(images):
    sizes = []

    def remember(pixels):
        sizes.append(len(pixels))
        return pixels.reshape(len(pixels), -1)[:, :3]

    box = prepared(remember, images, batch_size=30)
    sizes.clear()
    box.predict(images)
    assert sizes == [30, 30, 4]


def test_a_module_stays_in_evaluation_mode(images):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(784, 4))
    box = prepared(module, images)
    before = box.predict(images)
    module.train()
    np.testing.assert_array_equal(box.predict(images), before)


# --- what the model is asked


def asked(images, preprocessing):
    seen = []

    def remember(pixels):
        seen.append(pixels.copy())
        pixels[:] = -1  # its own memory
        return seen[-1].reshape(len(pixels), -1)[:, :2]

    box = prepared(remember, images, preprocessing=preprocessing)
    kept = images.copy()
    box.predict(images)
    np.testing.assert_array_equal(images, kept)
    assert seen[-1].dtype == np.float32 and seen[-1].flags.c_contiguous
    return seen[-1]


def test_it_is_asked_about_exactly_the_bytes_divided_by_255():
    images = np.arange(768, dtype=np.uint8).reshape(1, 3, 16, 16)
    wanted = images.astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(asked(images, Preprocessing()), wanted)


def test_grey_levels_mean_std_and_layout():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 8, 6), dtype=np.uint8)
    grey = images.astype(np.float32)
    np.testing.assert_array_equal(
        asked(images, Preprocessing(scale="0..255", layout="nhwc")), grey.transpose(0, 2, 3, 1)
    )
    mean, std = np.float32([0.1, 0.2, 0.3]), np.float32([0.5, 0.25, 2.0])
    for layout, order in (("nchw", (0, 1, 2, 3)), ("nhwc", (0, 2, 3, 1))):
        preprocessing = Preprocessing(mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 2.0), layout=layout)
        wanted = (grey / np.float32(255) - mean[:, None, None]) / std[:, None, None]
        np.testing.assert_allclose(asked(images, preprocessing), wanted.transpose(order), atol=1e-6)


@pytest.mark.parametrize("mean, std, message", [((0.5, 0.5), (), "2 values"), ((), (0.0,), "other than 0")])
def test_a_mean_or_std_that_does_not_fit_is_refused(images, mean, std, message):
    with pytest.raises(UserError, match=message):
        prepared(pick([[0.0, 1.0]] * 64), images, preprocessing=Preprocessing(mean=mean, std=std))


@pytest.mark.parametrize("change", ["read-only", "reversed", "every second", "other order"])
def test_arrays_of_any_memory_order(net, images, expected, change):
    box = prepared(net, images)
    if change == "read-only":
        other = images.copy()
        other.flags.writeable = False
    elif change == "other order":
        other = np.asfortranarray(images)
    else:
        other = images[:, :, ::-1] if change == "reversed" else images[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = box.predict(other)
    np.testing.assert_allclose(found, expected(net, np.ascontiguousarray(other)), atol=1e-5)


# --- how its answers are read


@pytest.fixture
def logits():
    return torch.randn(64, 10, generator=torch.Generator().manual_seed(0)) * 3


def test_outputs_are_told_apart(images, logits):
    softmax = torch.softmax(logits, dim=1)
    eight_bits = torch.round(softmax * 256).clamp(max=255) / 256
    a_little_negative = softmax - 5e-5
    cases = {
        "logits": [logits, torch.log_softmax(logits, 1), logits.abs(), torch.full((64, 10), -0.5), logits * 1e3],
        "probabilities": [softmax, eight_bits, a_little_negative, softmax.half(), softmax.double()],
        "scores": [torch.sigmoid(logits), torch.zeros(64, 10), torch.ones(64, 10), softmax * 0.5],
    }
    assert float((eight_bits.sum(1) - 1).abs().max()) > 1e-3
    for kind, answers in cases.items():
        for answer in answers:
            box = prepared(lambda pixels, answer=answer: answer[: len(pixels)], images)
            assert box.preprocessing.outputs == kind
            found = box.predict(images)
            np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
            assert found.min() >= 0 and found.max() <= 1


def test_probabilities_come_through_and_rounded_ones_are_divided_by_their_sum(images, logits):
    softmax = torch.softmax(logits, dim=1).numpy()
    np.testing.assert_allclose(prepared(pick(softmax), images).predict(images), softmax, atol=3e-7)
    rounded = (np.round(softmax * 256) / 256).astype(np.float32)
    wanted = rounded / rounded.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(prepared(pick(rounded), images).predict(images), wanted, atol=1e-7)


def test_a_row_of_zeros_becomes_uniform(images):
    found = prepared(pick([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]] * 32), images).predict(images[:2])
    np.testing.assert_array_equal(found, [[0.25] * 4, [1, 0, 0, 0]])


def test_what_is_fixed_is_not_decided_again(images, logits):
    softmax = pick(torch.softmax(logits, dim=1))
    decided = prepared(softmax, images).preprocessing
    assert decided == replace(DEFAULT_PREPROCESSING, layout="nchw", outputs="probabilities", background="none")
    again = prepared(softmax, images, preprocessing=decided)
    assert again.preprocessing == decided
    as_logits = prepared(softmax, images, preprocessing=replace(decided, outputs="logits"))
    assert as_logits.preprocessing.outputs == "logits"
    with pytest.raises(UserError, match="taken for scores; set outputs to logits"):
        prepared(pick(logits), images, preprocessing=Preprocessing(outputs="scores"))


def test_preparing_survives_a_function_that_gives_the_same_array_every_time(images):
    buffer = np.zeros((8, 2), dtype=np.float32)

    def reuse(pixels):
        buffer[: len(pixels)] = pixels[:, 0, 0, :2] * 4 - 1  # logits for some images only
        return buffer[: len(pixels)]

    images[-8:] = 100
    assert prepared(reuse, images, batch_size=8).preprocessing.outputs == "logits"


# --- models that fail


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_break_the_run_off(images, bad, told):
    def sometimes(pixels):
        rows = pixels.reshape(len(pixels), -1)[:, :3] * 5 - 2
        rows[pixels.reshape(len(pixels), -1).min(axis=1) == 1, 1] = bad
        return rows

    box = prepared(sometimes, images)
    images[[3, 40]] = 255
    with pytest.raises(
        RunError, match=r"^Model sometimes gave NaN or infinite values for 2 of 64 images; look at its weights"
    ) as later:
        box.predict(images)
    told("Answers of a model", f"{bad} in mid-run", later.value)
    with pytest.raises(UserError, match="On real images, model sometimes gave NaN") as caught:
        load(sometimes).prepare(images)
    told("Answers of a model", f"{bad} on real images", caught.value)


def test_a_model_that_raises_in_mid_run_is_named_with_its_reason(images, told):
    def moody(pixels):
        if pixels.min() == 1:
            raise ValueError("not today\nmore of it")
        return pixels.reshape(len(pixels), -1)[:, :3]

    box = prepared(moody, images, name="Moody")
    with pytest.raises(
        RunError, match=r"^Model Moody failed on 5 images \(ValueError: not today\); repair it\.$"
    ) as caught:
        box.predict(np.full((5, 1, 28, 28), 255, dtype=np.uint8))
    assert isinstance(caught.value.__cause__, ValueError)
    told("Answers of a model", "an exception in mid-run", caught.value)


def test_other_outputs_in_mid_run(images):
    def changing(pixels):
        width = 4 if pixels.min() == 1 else 3
        return np.full((len(pixels), width), 7.0 if pixels.max() == 0 else 1 / width, dtype=np.float32)

    box = prepared(changing, images)
    with pytest.raises(RunError, match="gave 4 values per image, before 3"):
        box.predict(np.full((2, 1, 28, 28), 255, dtype=np.uint8))
    with pytest.raises(RunError, match="gave values from 7 to 7, although its outputs are taken for probabilities"):
        box.predict(np.zeros((2, 1, 28, 28), dtype=np.uint8))


def test_too_little_memory_is_said(images, told):
    def huge(pixels):
        if len(pixels) > 1:
            raise MemoryError
        return np.zeros((1, 2), dtype=np.float32)

    with pytest.raises(UserError, match="too little memory for 64 images at once; give a smaller batch size") as caught:
        prepared(huge, images, batch_size=64)
    told("Answers of a model", "too little memory, on the real images", caught.value)


@pytest.mark.parametrize(
    "answers, answer, message",
    [
        ("shape (N,)", lambda n: np.zeros(n), r"an array of shape \(64,\) for 64 images; export it .* \(N, 1\)"),
        ("labels alone, shape (N,)", lambda n: np.arange(n) % 10, "one whole number for each image, as labels are"),
        ("labels alone, shape (N,), as floats", lambda n: np.arange(n) % 10.0, "one whole number for each image"),
        ("labels alone, shape (N, 1)", lambda n: np.arange(n)[:, None] % 10.0, "one whole number for each image"),
        (
            "shape (N, K, 1)",
            lambda n: np.zeros((n, 10, 1)),
            r"shape \(64, 10, 1\) for 64 images; export it .* \(64, number of classes\)",
        ),
        ("shape (K, N + 1)", lambda n: np.zeros((10, n + 1)), r"shape \(10, 65\)"),
        ("int64 values", lambda n: np.zeros((n, 10), dtype=np.int64), "int64 values"),
        ("complex values", lambda n: np.zeros((n, 10), dtype=np.complex64), "a ndarray"),
        ("a dict of two outputs", lambda n: {"logits": 1, "features": 2}, r"a dict of outputs \(logits, features\)"),
        ("a tuple of two outputs", lambda n: (np.zeros((n, 10)), np.zeros(n)), "a tuple of 2 outputs"),
        ("nothing", lambda n: None, "gives nothing"),
        ("text", lambda n: "cat", "a str"),
    ],
)
def test_other_answers_are_refused_and_named(images, answers, answer, message, told):
    def model(pixels):
        return answer(len(pixels))

    with pytest.raises(UserError, match=message) as caught:
        prepared(model, images)
    told("Answers of a model", answers, caught.value)


def test_a_module_with_several_outputs_is_refused(images):
    class Two(torch.nn.Module):
        def forward(self, pixels):
            return [pixels.flatten(1), pixels.flatten(1)]

    with pytest.raises(UserError, match="Model Two gives a list of 2 outputs"):
        prepared(Two(), images)


def test_a_model_that_squeezes_is_refused_at_once(images, told):
    with pytest.raises(UserError, match="answers 64 images at once but not a single one") as caught:
        prepared(lambda pixels: pixels.reshape(len(pixels), -1)[:, :3].squeeze(), images)
    told("Answers of a model", "one row less for a single image", caught.value)


# --- callers that err


def test_images_that_are_none_are_refused(net, images):
    box = load(net)
    with pytest.raises(UserError, match="call prepare"):
        box.predict(images)
    with pytest.raises(UserError, match="without images"):
        box.prepare(images[:0])
    box.prepare(images)
    for wrong, message in [
        (images.astype(np.float32), "float32 images; give uint8"),
        (torch.from_numpy(images).float(), "torch.float32 images; give uint8"),
        (images[0], r"shape \(1, 28, 28\); give \(N, C, H, W\)"),
        (images[:, :, :0], "give"),
        (images.tolist(), "a list; give"),
        (images[:, :, :20], "prepared for 1x28x28 images but is asked about 1x20x28"),
    ]:
        with pytest.raises(UserError, match=message):
            box.predict(wrong)


def test_many_images_are_looked_at_as_a_random_sample() -> None:
    """Data sets are often in order of class, and a model may be undecided, or saturated, on all of one class."""
    data = load_data("digits")
    order = np.argsort(data.labels, kind="stable")
    shown: list[np.ndarray] = []

    def ink(pixels: np.ndarray) -> np.ndarray:
        shown.append(pixels)
        much = pixels.mean(axis=(1, 2, 3))
        return np.stack([much, 1 - much], axis=1).astype(np.float32)

    for images in (data.images[order], torch.from_numpy(data.images[order])):
        shown.clear()
        load(ink).prepare(images)
        known = {image.tobytes(): label for image, label in zip(data.images, data.labels, strict=True)}
        seen = {np.rint(image * 255).astype(np.uint8).tobytes() for part in shown for image in part}
        assert len(seen & known.keys()) <= 256
        assert {known[each] for each in seen if each in known} == set(range(10))


@pytest.mark.parametrize("outputs", ["auto", "logits"])
def test_a_module_of_the_caller_is_in_its_own_mode_after_it_is_asked(outputs: str) -> None:
    seen: list[tuple[bool, ...]] = []

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.drop = torch.nn.BatchNorm2d(1).eval(), torch.nn.Dropout(0.5)
            self.last = torch.nn.Linear(16, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(tuple(part.training for part in self.modules()))
            return self.last(self.drop(self.frozen(images)).flatten(1))

    network = Network()
    modes = {name: part.training for name, part in network.named_modules()}
    assert modes == {"": True, "frozen": False, "drop": True, "last": True}
    box = load(network, preprocessing=Preprocessing(outputs=outputs))  # type: ignore[arg-type]
    images = np.random.default_rng(0).integers(0, 256, (20, 1, 4, 4), dtype=np.uint8)
    box.prepare(images)
    assert np.array_equal(box.predict(images), box.predict(images))
    assert seen and not any(map(any, seen))
    assert {name: part.training for name, part in network.named_modules()} == modes


def test_what_outputs_are_is_told_by_their_values():
    logits = torch.randn(64, 10, generator=torch.Generator().manual_seed(0)) * 4
    probabilities = logits.softmax(dim=1)
    kinds = {
        "logits": logits,
        "probabilities that sum to 1": probabilities,
        "logarithms of probabilities": logits.log_softmax(dim=1),
        "values from 0 to 1 that do not sum to 1": 0.1 * probabilities,
        "logits of the second of two classes alone": logits[:, :1],
        "probabilities of the second of two classes alone": probabilities[:, :1],
    }
    assert [outputs_in_words(raw) for raw in kinds.values()] == list(kinds)
    eight_bits = (probabilities * 255).round() / 255
    assert outputs_in_words(eight_bits) == "probabilities that sum to 1"
    assert outputs_in_words((logits.log_softmax(dim=1) * 8).round() / 8) == "logarithms of probabilities"
    # one sigmoid for each class, of a picture with one label and of pictures with several
    assert not names_several_labels(logits.sigmoid() * (logits == logits.amax(dim=1, keepdim=True)))
    assert names_several_labels(torch.sigmoid(logits * 4)) and not names_several_labels(logits * 4)
