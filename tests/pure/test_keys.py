from datetime import timedelta
from typing import Any

import pytest

from duly.records.api_key import ApiKey, MadeKey, Scope, hash_of, hint_of, looks_like_a_key, write_key
from tests.make import START

KEY = write_key(bytes(range(32)))


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (Scope.READ, [Scope.READ]),
        (Scope.WRITE, [Scope.READ, Scope.WRITE]),
        (Scope.ADMIN, [Scope.READ, Scope.WRITE, Scope.ADMIN]),
    ],
)
def test_a_scope_covers_itself_and_those_below(scope: Scope, covered: list[Scope]) -> None:
    assert [other for other in Scope if scope.covers(other)] == covered


def test_a_key_is_a_word_and_256_bits() -> None:
    assert KEY == "duly_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert looks_like_a_key(KEY)
    assert hint_of(KEY) == "duly_AAECAw"


@pytest.mark.parametrize(
    "text", ["", "duly_", KEY[:-1], KEY + "A", KEY.replace("duly_", "dull_"), KEY[:-1] + "é", None, 7]
)
def test_text_that_cannot_be_a_key_is_recognised_without_a_query(text: Any) -> None:
    assert not looks_like_a_key(text)


def test_the_stored_hash_tells_nothing_of_the_key() -> None:
    assert hash_of(KEY) == hash_of(KEY) != hash_of(KEY[:-1] + "9")
    assert len(hash_of(KEY)) == 64
    assert KEY[5:] not in hash_of(KEY)


def made(**fields: Any) -> ApiKey:
    usual: dict[str, Any] = {
        "id": "x",
        "tenant": "acme",
        "name": "crm",
        "scope": Scope.READ,
        "hint": "duly_x",
        "created": START,
    }
    return ApiKey(**(usual | fields))


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "active"),
        ({"expires": START + timedelta(microseconds=1)}, "active"),
        ({"expires": START}, "expired"),
        ({"revoked": START}, "revoked"),
        ({"revoked": START, "expires": START}, "revoked"),
    ],
)
def test_a_key_is_active_until_it_expires_or_is_revoked(fields: dict[str, Any], state: str) -> None:
    assert made(**fields).state(START) == state


def test_no_repr_shows_the_key() -> None:
    assert KEY not in repr(MadeKey(made(), KEY))
    assert KEY not in str(MadeKey(made(), KEY))
