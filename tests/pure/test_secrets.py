import base64
import json
import secrets
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from duly.config import read_settings
from duly.decide.targets.secrets import SecretKeys, secret_problem, signature, written
from duly.errors import BadSetting, Misuse
from duly.target_secrets import Seal, Sealed

KEY, OLD = "k" * 40, "o" * 40
ID = "0199c0de-0000-7000-8000-000000000001"


def a_secret(size: int = 32) -> str:
    return written(secrets.token_bytes(size))


def now() -> int:
    """The library verifies nothing that is older than five minutes; and a run of all tests takes longer."""
    return int(datetime.now(UTC).timestamp())


def headers(signed: str, *, at: int, id: str = ID) -> dict[str, str]:
    return {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": signed}


def accepts(secret: str, body: bytes, signed: str, **told: Any) -> bool:
    """What the reference library says."""
    try:
        Webhook(secret).verify(body, headers(signed, **told))
    except WebhookVerificationError:
        return False
    return True


# -- signatures


@given(st.integers(24, 64), st.dictionaries(st.text(), st.text() | st.integers()))
def test_the_reference_library_verifies_what_is_signed(size: int, said: Any) -> None:
    secret, body, at = a_secret(size), json.dumps(said, ensure_ascii=False).encode(), now()
    assert accepts(secret, body, signature([secret], ID, at, body), at=at)


def test_a_request_that_was_changed_on_the_way_is_not_verified() -> None:
    secret, body, at = a_secret(), b'{"a":1}', now()
    signed = signature([secret], ID, at, body)
    assert accepts(secret, body, signed, at=at)
    assert not accepts(secret, b'{"a":2}', signed, at=at)
    assert not accepts(secret, body, signed, at=at, id="another")
    assert not accepts(secret, body, signed, at=at + 1)
    assert not accepts(a_secret(), body, signed, at=at)


def test_a_request_that_was_sent_long_ago_is_not_verified() -> None:
    secret, long_ago = a_secret(), now() - 600
    assert not accepts(secret, b"{}", signature([secret], ID, long_ago, b"{}"), at=long_ago)


def test_each_of_several_secrets_verifies_the_same_request() -> None:
    new, old, at = a_secret(), a_secret(24), now()
    signed = signature([new, old], ID, at, b"{}")
    assert len(signed.split(" ")) == 2
    assert accepts(new, b"{}", signed, at=at)
    assert accepts(old, b"{}", signed, at=at)
    assert not accepts(a_secret(), b"{}", signed, at=at)


# -- secrets that people bring


@pytest.mark.parametrize("size", [24, 25, 26, 32, 33, 64])
def test_a_secret_may_come_with_or_without_its_prefix_and_its_padding(size: int) -> None:
    secret, at = a_secret(size), now()
    for brought in (secret, secret.removeprefix("whsec_"), secret.rstrip("=")):
        assert secret_problem("secret", brought) is None, brought
        assert accepts(secret, b"{}", signature([brought], ID, at, b"{}"), at=at)


@pytest.mark.parametrize("size", [0, 1, 23, 65, 1000])
def test_a_secret_that_is_too_short_or_too_long_is_refused(size: int) -> None:
    problem = secret_problem("secret", a_secret(size))
    assert problem is not None
    assert "24 to 64" in problem.message


@pytest.mark.parametrize(
    "wrong", [None, 7, b"whsec_", [], "whsec_!!!", "whsec_é", "not base64 at all!", "whsec_ab=cd" * 5]
)
def test_text_that_is_no_secret_is_refused_without_being_repeated(wrong: Any) -> None:
    problem = secret_problem("secret", wrong)
    assert problem is not None
    assert not isinstance(wrong, str) or wrong not in str(problem)


# -- keys


def shows(thing: object) -> str:
    return (
        f"{thing!r} {thing} {thing:>1}" if not isinstance(thing, BaseException) else f"{thing!r} {thing} {thing.args}"
    )


def test_encryption_keys_are_never_shown() -> None:
    keys = SecretKeys(f"{KEY},{OLD}")
    settings = read_settings({}, secret_key=f"{KEY},{OLD}")
    for thing in (keys, [keys], {"keys": keys}, settings):
        assert KEY not in repr(thing) + str(thing)
        assert OLD not in repr(thing) + str(thing)


def test_a_key_that_is_too_short_is_refused_without_being_repeated() -> None:
    for short in ("hunter2", f"{KEY},hunter2"):
        with pytest.raises(BadSetting, match="at least 32 characters in each key; make one with: python") as refused:
            read_settings({"DULY_SECRET_KEY": short})
        assert "hunter2" not in shows(refused.value)
        assert KEY not in shows(refused.value)


def test_the_command_for_making_a_key_makes_one(capsys: pytest.CaptureFixture[str]) -> None:
    from duly.decide.targets.secrets import MAKE_KEY

    exec(MAKE_KEY.partition("python -c '")[2].rstrip("'"))
    assert not SecretKeys(capsys.readouterr().out).too_short


def test_each_tenant_and_each_origin_has_a_secret_of_its_own() -> None:
    keys = SecretKeys(KEY)
    asked = [(tenant, origin) for tenant in ("acme", "globex") for origin in ("https://a.example", "https://b.example")]
    made = [keys.signing(*one) for one in asked]
    assert len({secret for [secret] in made}) == 4
    assert keys.signing("acme", "https://a.example") == SecretKeys(f" {KEY} ").signing("acme", "https://a.example")
    assert all(secret_problem("secret", secret) is None for [secret] in made)


def test_the_newest_key_comes_first_and_older_ones_sign_too() -> None:
    assert SecretKeys(f"{KEY},{OLD}").signing("acme", "x") == [
        *SecretKeys(KEY).signing("acme", "x"),
        *SecretKeys(OLD).signing("acme", "x"),
    ]


def test_keys_with_the_same_beginning_make_different_secrets() -> None:
    """A keyed hash takes 64 bytes; what is longer must count to the end."""
    long = "x" * 100
    assert SecretKeys(long + "1").derived("seal") != SecretKeys(long + "2").derived("seal")


# -- seals


SEALED = Sealed("acme", "crm", [(a_secret(), None)], {"Authorization": "Bearer hunter2"})


def test_a_sealed_secret_is_opened_by_its_key_alone() -> None:
    text = Seal(SecretKeys(KEY)).close(SEALED)
    assert Seal(SecretKeys(KEY)).open(text, "acme", "crm") == SEALED
    for secret in (SEALED.secrets[0][0], "hunter2", "Authorization"):
        assert secret not in text
        assert base64.b64encode(secret.encode()).decode()[:-4] not in text


def test_an_older_key_still_opens_secrets_that_it_sealed() -> None:
    text = Seal(SecretKeys(OLD)).close(SEALED)
    assert Seal(SecretKeys(f"{KEY},{OLD}")).open(text, "acme", "crm") == SEALED
    anew = Seal(SecretKeys(f"{KEY},{OLD}")).close(SEALED)
    assert Seal(SecretKeys(KEY)).open(anew, "acme", "crm") == SEALED, "the newest seals"


def test_opening_a_secret_with_another_key_says_what_to_do() -> None:
    text = Seal(SecretKeys(OLD)).close(SEALED)
    with pytest.raises(
        Misuse, match="target 'crm' was encrypted with another DULY_SECRET_KEY: set both keys, as NEW,OLD"
    ):
        Seal(SecretKeys(KEY)).open(text, "acme", "crm")
    with pytest.raises(Misuse, match="DULY_SECRET_KEY, which is not set: make one with: python"):
        Seal(SecretKeys(None)).open(text, "acme", "crm")
    with pytest.raises(Misuse, match="DULY_SECRET_KEY, which is not set: make one with: python"):
        Seal(SecretKeys("")).close(SEALED)


@pytest.mark.parametrize("damaged", ["", "x", "gAAAAA==", "é"])
def test_a_damaged_sealed_secret_is_told_as_such(damaged: str) -> None:
    with pytest.raises(Misuse, match="target 'crm'"):
        Seal(SecretKeys(KEY)).open(damaged, "acme", "crm")


@pytest.mark.parametrize("owner", [("globex", "crm"), ("acme", "billing")])
def test_a_secret_sealed_for_one_target_cannot_be_opened_for_another(owner: tuple[str, str]) -> None:
    with pytest.raises(Misuse, match="were encrypted for another target: create the target again"):
        Seal(SecretKeys(KEY)).open(Seal(SecretKeys(KEY)).close(SEALED), *owner)


def test_an_opened_secret_is_not_in_a_repr() -> None:
    told = repr(SEALED) + str(SEALED) + f"{[SEALED]}"
    assert "hunter2" not in told
    assert SEALED.secrets[0][0] not in told
