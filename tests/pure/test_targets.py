from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL as Parsed

from duly import http, webhook
from duly.decide.checks import target_problems
from duly.decide.targets.targets import (
    AmbiguousHost,
    destination_of,
    origin_of,
    parked_alone,
    parked_as,
    shown,
    spec_problems,
    target_name_problems,
    url_in_ascii,
    url_problems,
)

URL = "https://hooks.example/in"
CHANNELS = ("webhook", "http")


def problems(target: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in target_problems(target, CHANNELS)}


# -- what is said


def test_a_webhook_target_is_its_url_unless_it_has_options() -> None:
    assert webhook(URL) == {"webhook": URL}
    assert webhook(URL, format="cloudevents", timeout=timedelta(seconds=90)) == {
        "webhook": {"url": URL, "format": "cloudevents", "timeout": "1m30s"}
    }
    assert webhook(target="crm") == {"webhook": {"target": "crm"}}


def test_a_request_target_has_its_options_and_no_body_is_not_an_empty_one() -> None:
    assert http("PUT", URL) == {"http": {"method": "PUT", "url": URL}}
    assert http("PUT", URL, body=None) == {"http": {"method": "PUT", "url": URL, "body": None}}
    assert http(target="crm", body={"a": 1}) == {"http": {"target": "crm", "body": {"a": 1}}}
    with pytest.raises(TypeError, match="http\\(\\) has no option 'json'; known: method, url"):
        http("PUT", URL, json={})


@pytest.mark.parametrize(
    "target",
    [
        webhook(URL),
        webhook("http://hooks.example:8080/in?x=1"),
        webhook("https://[2606:4700:4700::1111]:8443/"),
        webhook("https://bücher.example/"),
        webhook("https://hooks.example"),
        webhook(URL, format="standard", timeout="100ms"),
        webhook(URL, timeout="5m"),
        webhook(target="crm"),
        webhook(target="a.b-c_D9"),
        http("GET", URL),
        http(url=URL),
        http("PATCH", URL, headers={"X-Trace": "a\tb", "Authorization": "Bearer ~"}, body="text", timeout="3s"),
        http(target="crm", body=None),
        {"http": {"url": URL, "headers": {}}},
    ],
)
def test_a_target_that_can_be_sent_to_has_no_problems(target: Any) -> None:
    assert problems(target) == {}


def test_all_problems_of_a_target_are_told_at_once() -> None:
    said = {
        "method": "get it",
        "url": "ftp://hooks.example",
        "headers": {"Host": "other", "X:Y": "1", "X-N": 7, "X-L": "a\nb"},
        "timeout": "1h",
        "colour": "red",
    }
    assert problems({"http": said}) == {
        "target.http.colour": "is not known; known: method, url, target, headers, body, timeout, retry_statuses",
        "target.http.url": "'ftp://hooks.example' is not an http or https URL",
        "target.http.method": "expected a method such as POST, not 'get it'",
        "target.http.timeout": "must be from 100ms to 5m, not '1h'",
        "target.http.headers": "'X:Y' is not a valid header name",
        "target.http.headers.Host": "is set by the connection and cannot be given",
        "target.http.headers.X-N": "expected text, not int",
        "target.http.headers.X-L": "must be at most 8,000 characters of printable ASCII",
    }


WRONG: list[Any] = [None, 7, 7.5, True, b"bytes", [], (), {1}, object(), [URL], timedelta(1)]


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_target_that_is_no_object_is_a_problem_and_no_traceback(channel: str, wrong: Any) -> None:
    assert list(problems({channel: wrong})) == [f"target.{channel}"]


@pytest.mark.parametrize("field", ["url", "method", "headers", "timeout", "target", "format"])
@pytest.mark.parametrize("wrong", [*WRONG[:-1], {}, "\x00", ""])
def test_a_wrong_value_of_any_field_is_a_problem_and_no_traceback(field: str, wrong: Any) -> None:
    if field == "headers" and wrong == {}:
        return
    channel = "webhook" if field == "format" else "http"
    spec = {"url": URL, field: wrong} if field != "target" else {"target": wrong}
    assert list(problems({channel: spec})) == [f"target.{channel}.{field}"]


@pytest.mark.parametrize("spec", [{}, {"url": URL, "target": "crm"}, {"timeout": "1s"}])
def test_a_target_is_either_a_url_or_a_name(spec: Any) -> None:
    assert problems({"webhook": spec}) == {"target.webhook": "needs either url or target (the name of a stored target)"}


@pytest.mark.parametrize("more", [{"format": "cloudevents"}, {"timeout": "1s"}, {"headers": {}}, {"method": "PUT"}])
def test_options_of_a_stored_target_cannot_be_given_again(more: dict[str, Any]) -> None:
    channel = "webhook" if "format" in more else "http"
    [(path, message)] = problems({channel: {"target": "crm", **more}}).items()
    assert path == f"target.{channel}.{next(iter(more))}"
    assert message == "is set in the stored target: change it there"


def test_the_timeout_of_a_target_is_stored_as_people_write_it() -> None:
    """What JSON makes of a timedelta could not be read when the event is due."""
    [(path, message)] = problems({"webhook": {"url": URL, "timeout": timedelta(seconds=3)}}).items()
    assert path == "target.webhook.timeout"
    assert message.startswith("expected a duration such as 30s, 1h30m, 90d or 250ms, not ")


# -- URLs


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is not an http or https URL"),
        ("hooks.example/in", "is not an http or https URL"),
        ("//hooks.example/in", "is not an http or https URL"),
        ("ftp://hooks.example", "is not an http or https URL"),
        ("file:///etc/passwd", "is not an http or https URL"),
        ("gopher://hooks.example:70/_x", "is not an http or https URL"),
        ("unix:///var/run/docker.sock", "is not an http or https URL"),
        ("https://", "has no host"),
        ("https:///in", "has no host"),
        ("https://:443/in", "has no host"),
        ("https://ada:secret@hooks.example/in", "contains credentials"),
        ("https://ada@hooks.example/in", "contains credentials"),
        ("https://hooks.example\\@inside.example/", "contains credentials"),
        ("https://hooks.example/in#part", "has a fragment"),
        ("https://hooks.example:0/in", "has the port 0"),
        ("https://hooks.example:65536/in", "has an invalid port: expected a number from 1 to 65535"),
        ("https://hooks.example:secret/in", "has an invalid port: expected a number from 1 to 65535"),
        ("https://hooks..example/in", "has an invalid host name"),
        (f"https://{'a' * 64}.example/", "has an invalid host name"),
        ("https://[::1/in", "cannot be read"),
        ("https://hooks.example/a b", "has a space"),
        ("https://hooks.example/in\r\nX-Injected: 1", "has a space or a character that cannot be printed"),
        ("https://hooks.example/\x00", "cannot be printed"),
        ("https://hooks.example/\u202e", "cannot be printed"),
        (f"https://hooks.example/{'a' * 2000}", "at most 2,000"),
    ],
)
def test_a_url_that_cannot_be_meant_is_a_problem(url: str, message: str) -> None:
    [problem] = url_problems("url", url)
    assert message in problem.message


@pytest.mark.parametrize(
    "url",
    [
        "https://ada:hunter2@hooks.example/in?token=hunter2",
        "https://ada:hunter2@hooks.example:99999/in?token=hunter2",
        "https://ada:hunter2@/in?token=hunter2",
        "https://ada:hunter2@hooks.example:port/",
        "https://ada:hunter2@[::1/in?token=hunter2",
        "ftp://ada:hunter2@hooks.example/in?token=hunter2",
        "https://hooks.example/#?token=hunter2",
        "ada:hunter2@hooks.example",
    ],
)
def test_no_problem_of_a_url_tells_its_credentials(url: str) -> None:
    [problem] = url_problems("url", url)
    assert "hunter2" not in str(problem)
    assert "hunter2" not in shown(url)


@given(st.text(max_size=40))
def test_any_value_as_a_target_is_checked_without_a_traceback(text: str) -> None:
    for url in (text, f"https://{text}", f"https://hooks.example{text}"):
        for said in (url, {"url": url}, {"target": url}):
            found = list(spec_problems("webhook", said))
            if not found:
                assert destination_of({"webhook": said})


# -- names


@pytest.mark.parametrize("name", ["crm", "CRM.eu-1_b", "0", "a" * 100])
def test_the_name_of_a_target_is_letters_digits_and_little_else(name: str) -> None:
    assert list(target_name_problems("name", name)) == []


@pytest.mark.parametrize("name", ["", "a" * 101, "a b", "a/b", "https://x", "-a", ".a", "é", "a\n", "crm\x00", None, 7])
def test_the_name_of_a_target_cannot_be_a_url_or_a_path(name: Any) -> None:
    [problem] = target_name_problems("name", name)
    assert "is not a valid target name" in problem.message


# -- headers


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "CONNECTION", "Upgrade", "TE"])
def test_a_target_cannot_set_headers_of_the_connection(name: str) -> None:
    assert problems(http("PUT", URL, headers={name: "x"})) == {
        f"target.http.headers.{name}": "is set by the connection and cannot be given"
    }


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nb", "a\x00", "é", "x" * 8001])
def test_a_header_cannot_smuggle_another_one(value: str) -> None:
    assert list(problems(http("PUT", URL, headers={"X-A": value}))) == ["target.http.headers.X-A"]


def test_a_header_is_given_once_however_it_is_written() -> None:
    assert problems(http("PUT", URL, headers={"X-A": "1", "x-a": "2"})) == {
        "target.http.headers.x-a": "is given twice: upper and lower case make no difference in header names"
    }


def test_the_headers_of_a_target_have_a_largest_size() -> None:
    assert problems(http("PUT", URL, headers={f"X-{n}": "" for n in range(50)})) == {}
    assert (
        "has 51 headers" in problems(http("PUT", URL, headers={f"X-{n}": "" for n in range(51)}))["target.http.headers"]
    )
    assert problems(http("PUT", URL, headers={"x" * 8001: "1"}))


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "post", "", "GET /", "A" * 21])
def test_methods_that_deliver_nothing_are_refused(method: str) -> None:
    assert list(problems(http(method, URL) if method else {"http": {"method": "", "url": URL}})) == [
        "target.http.method"
    ]


# -- whom limits apply to


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://hooks.example", "https://hooks.example"),
        ("https://hooks.example/", "https://hooks.example"),
        ("HTTPS://Hooks.EXAMPLE/In?x=1", "https://hooks.example"),
        ("https://hooks.example:443/in", "https://hooks.example"),
        ("https://hooks.example:/in", "https://hooks.example"),
        ("http://hooks.example:80/in", "http://hooks.example"),
        ("http://hooks.example:443/in", "http://hooks.example:443"),
        ("https://hooks.example:8443/in", "https://hooks.example:8443"),
        ("https://hooks.example./in", "https://hooks.example."),
        ("https://[2606:4700::1111]/in", "https://[2606:4700::1111]"),
        ("https://[2606:4700::1111]:8443/in", "https://[2606:4700::1111]:8443"),
        ("https://bücher.example/in", "https://xn--bcher-kva.example"),
        ("https://BÜCHER.example/in", "https://xn--bcher-kva.example"),
        ("https://xn--bcher-kva.example/in", "https://xn--bcher-kva.example"),
        ("https://hooks。example/in", "https://hooks.example"),
        ("https://192.0.2.1:8080/", "https://192.0.2.1:8080"),
    ],
)
def test_the_same_receiver_is_one_destination_however_its_url_is_written(url: str, origin: str) -> None:
    assert origin_of(url) == origin
    for target in (webhook(url), webhook(url, timeout="1s"), http("PUT", url)):
        assert destination_of(target) == origin


def test_a_stored_target_is_a_destination_by_its_name() -> None:
    assert destination_of(webhook(target="crm")) == destination_of(http(target="crm", body=1)) == "crm"


@pytest.mark.parametrize("target", [None, {"nats": "subject"}, {"nats": {"url": URL}}, {"log": None}])
def test_a_target_of_another_channel_has_no_destination(target: Any) -> None:
    assert destination_of(target) is None


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://ada:secret@hooks.example/in?token=1#x", "https://hooks.example/in"),
        ("https://hooks.example:443/in", "https://hooks.example/in"),
        ("https://hooks.example", "https://hooks.example"),
        ("https://hooks.example/?token=1", "https://hooks.example/"),
    ],
)
def test_a_url_is_shown_without_what_might_be_secret(url: str, told: str) -> None:
    assert shown(url) == told


def test_a_url_and_its_origin_are_parked_under_different_names() -> None:
    for root in ("https://hooks.example", "https://hooks.example/", "https://HOOKS.example:443?x=1"):
        assert parked_alone(root) == "https://hooks.example/"
    assert parked_as("https://hooks.example?x=1") == "https://hooks.example", "as people mean it"
    assert parked_as("https://hooks.example/") == "https://hooks.example/"
    assert parked_as("https://hooks.example/in?x=1") == parked_alone("https://hooks.example/in?y=2")


@pytest.mark.parametrize("host", ["straße.example", "STRAẞE.example", "βόλος.example"])
def test_a_host_that_can_be_read_in_two_ways_is_refused(host: str) -> None:
    [problem] = url_problems("url", f"https://{host}/in")
    assert "write it in the form xn--" in problem.message
    with pytest.raises(AmbiguousHost):
        url_in_ascii(f"https://{host}/in")


@pytest.mark.parametrize("host", ["bücher.example", "☃.example", "日本語。example", "hooks.example"])
@pytest.mark.parametrize("rest", ["/in?x=ü#é", ":8443", ""])
def test_the_host_that_is_connected_to_is_the_one_that_is_signed_for(host: str, rest: str) -> None:
    url = f"https://{host}{rest}"
    connected = Parsed(url_in_ascii(url))
    assert origin_of(url) == str(connected.origin())


def test_a_host_with_a_backslash_is_refused() -> None:
    """One program reads https://a.example\\@b.example as a host, another as a path of a.example."""
    assert [problem.message for problem in url_problems("url", "https://a.example\\b.example/")] != []
    assert list(url_problems("url", "https://a.example/a\\b")) == []


def test_the_statuses_that_a_request_retries_are_a_list_in_any_kind_of_collection() -> None:
    for statuses in ([404, 409], (404, 409), {409, 404}, frozenset({404, 409})):
        assert http("PUT", URL, retry_statuses=statuses)["http"]["retry_statuses"] == [404, 409]
    assert problems(http("PUT", URL, retry_statuses=range(500, 600))) == {}
    assert problems(http("PUT", URL, retry_statuses=[])) == {}
    assert "retry_statuses" not in http("PUT", URL)["http"]


def test_all_problems_of_retried_statuses_are_told_at_once() -> None:
    wrong: Any = [404, 99, 600, True, "409", 204, 409.5, 404.0, None]
    path, numbers = "target.http.retry_statuses", "expected a whole number from 100 to 599, not"
    assert problems({"http": {"url": URL, "retry_statuses": wrong}}) == {
        f"{path}[1]": f"{numbers} 99",
        f"{path}[2]": f"{numbers} 600",
        f"{path}[3]": f"{numbers} True",
        f"{path}[4]": f"{numbers} '409'",
        f"{path}[5]": "204 means success: no 2xx status can be retried",
        f"{path}[6]": f"{numbers} 409.5",
        f"{path}[8]": f"{numbers} None",
    }
    for no_list in (404, "404", None, {"404": 1}):
        [(where, message)] = problems({"http": {"url": URL, "retry_statuses": no_list}}).items()
        assert (where, message.startswith("expected a list of statuses such as [404, 409]")) == (path, True)
    assert problems({"http": {"url": URL, "retry_statuses": [404] * 401}}) == {path: "has 401 statuses; at most 400"}


def test_what_webhooks_retry_is_fixed() -> None:
    [(path, message)] = problems({"webhook": {"url": URL, "retry_statuses": [1]}}).items()
    assert (path, message.startswith("is not known")) == ("target.webhook.retry_statuses", True)
