"""Addresses of models: what is read from them, and what is refused without repeating a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.models.remote.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://h:8080/v2/models/lenet", Address("http://h:8080", "/v2", "lenet")),
        ("HTTPS://H/v2/models/lenet/", Address("https://h", "/v2", "lenet")),
        ("http://h/v2/models/lenet/versions/3", Address("http://h", "/v2", "lenet", "3")),
        ("http://[::1]:1/serving/ns/v2/models/a%20b", Address("http://[::1]:1", "/serving/ns/v2", "a b")),
    ],
)
def test_an_address_is_read(text: str, expected: Address) -> None:
    assert parse_address(text) == expected
    assert parse_address(str(expected)) == expected


def test_a_version_is_part_of_the_name_and_of_the_path() -> None:
    address = parse_address("http://h/v2/models/a%2Fb/versions/3")
    assert (address.name, address.path) == ("a/b.3", "/v2/models/a%2Fb/versions/3")


@pytest.mark.parametrize(
    "text",
    [
        "http://h",
        "http://h/v1/models/x:predict",
        "http://h/v2/models/",
        "http://h/v2/models/x/infer",
        "http:///v2/models/x",
        "http://h:99999/v2/models/x",
        "http://h:port/v2/models/x",
        "http://[h/v2/models/x",
        "http://h/v2/models/x y",
        "http://h/v2/models/x%1b[31m",
        "http://h/v2/models/x%ff",
        "http://h/v2/models/x\r\nHost: z",
    ],
)
def test_what_is_no_address_of_a_model_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"write http\(s\)://HOST"):
        parse_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://me:hunter2@h/v2/models/x",
        "http://hunter2@h/v2/models/x",
        "http://h/v2/models/x?key=hunter2",
        "http://h/v2/models/x#hunter2",
        "http://me:hunter2@h/elsewhere",
        "http://me:hunter2@h:port/v2/models/x?hunter2",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_address(text)
    assert "hunter2" not in str(caught.value)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(f"http://h/v2/models/{text}")
    except UserError as error:
        assert str(error).isprintable()
    else:
        assert parse_address(str(address)) == address
