import pytest

from duly.decide.retry import DEFAULT, Retry
from duly.records.event import TERMINAL, Status, lane_of
from tests.make import HOUR, START, make_event


def test_a_payload_is_decoded_anew_so_that_no_change_reaches_anybody_else() -> None:
    event = make_event(payload={"items": [1]})
    event.payload["items"].append(2)
    assert event.payload == {"items": [1]}


def test_an_event_is_frozen() -> None:
    with pytest.raises(AttributeError):
        make_event().status = Status.COMPLETED  # type: ignore[misc]


def test_the_lateness_of_an_event_is_known_once_it_was_executed() -> None:
    assert make_event().lateness is None
    assert make_event(status=Status.COMPLETED, executed=START + HOUR).lateness == HOUR
    assert make_event(status=Status.COMPLETED, executed=START).lateness == HOUR - HOUR


def test_the_attempt_under_way_is_one_more_than_those_settled() -> None:
    assert make_event(attempts=0).attempt == 1
    assert make_event(attempts=2).attempt == 3


def test_empty_fields_of_an_event_mean_their_defaults() -> None:
    event = make_event()
    assert (event.target, event.retry, event.payload) == (None, DEFAULT, None)
    event = make_event(target={"webhook": "x"}, retry=Retry(max_attempts=1))
    assert (event.target, event.retry.max_attempts) == ({"webhook": "x"}, 1)


def test_the_lane_of_an_event_is_its_channel_or_the_type_of_its_handler() -> None:
    assert lane_of("greet", None) == "handler:greet"
    assert lane_of("greet", {"webhook": "https://hooks.example"}) == "webhook"


def test_final_statuses_are_told_from_the_others() -> None:
    assert set(Status) - TERMINAL == {Status.PENDING, Status.PROCESSING}
