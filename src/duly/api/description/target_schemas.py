"""JSON Schemas of targets: the channel of an event, and the options that a caller over HTTP may set."""

from collections.abc import Mapping

from duly.api.description.schema_words import (
    PRINTABLE,
    TARGET_NAME,
    Schema,
    anything,
    choice,
    each_maybe,
    in_any_case,
    listed,
    maybe,
    span,
    taken,
    url,
    whole,
)
from duly.decide.targets.brokers import CELERY, KAFKA, LONGEST, NATS, RABBITMQ, REDIS, WORDS
from duly.decide.targets.commands import COMMAND, MOST_ARGUMENTS
from duly.decide.targets.commands import LONGEST as LONGEST_ARGUMENT
from duly.decide.targets.commands import TIMEOUTS as COMMAND_TIMEOUTS
from duly.decide.targets.secrets import LEAST, MOST, PREFIX
from duly.decide.targets.targets import (
    FORMATS,
    HTTP,
    LONGEST_HEADER,
    LONGEST_NAME,
    MOST_HEADERS,
    MOST_STATUSES,
    OURS,
    SAID,
    STATUSES,
    TIMEOUTS,
    WEBHOOK,
)

METHOD = r"^[A-Z]{1,20}$"
TOKEN = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
ASCII = r"^[\t -~]*$"

timeout: Schema = span(*TIMEOUTS)
method: Schema = {
    "type": "string",
    "pattern": METHOD,
    "not": {"enum": ["CONNECT", "TRACE"]},
    "description": "Any method except CONNECT and TRACE",
    "examples": ["PUT"],
}
_status: Schema = {**whole(*STATUSES), "not": {"minimum": 200, "maximum": 299}}
retry_statuses: Schema = listed(
    _status,
    maxItems=MOST_STATUSES,
    description="The only statuses that are retried; without it: 401, 403, 404, 408, 425, 429 and 5xx",
    examples=[[404, 409]],
)
stored: Schema = {"type": "string", "pattern": TARGET_NAME, "description": "Name of a stored target"}

_BASE64 = "[A-Za-z0-9+/]"
secret: Schema = {
    "type": "string",
    "pattern": rf"^({PREFIX})?(({_BASE64}{{4}}){{8,20}}({_BASE64}{{2,3}})?|({_BASE64}{{4}}){{21}}({_BASE64}{{2}})?)=*$",
    "description": f"{LEAST} to {MOST} bytes in base64",
    "examples": ["whsec_bWFkZSB1cCBmb3IgdGhlIGV4YW1wbGUgYWJvdmU="],
}


def headers(*refused: str, begin: str = "") -> Schema:
    """HTTP headers of a target, except the connection's own, the *refused* names, and names that start with *begin*."""
    never = [f"^({in_any_case([*OURS, *refused])})$", *([f"^{in_any_case([begin])}"] if begin else [])]
    return {
        "type": "object",
        "maxProperties": MOST_HEADERS,
        "propertyNames": {
            "pattern": TOKEN,
            "minLength": 1,
            "maxLength": LONGEST_NAME,
            "not": {"anyOf": [{"pattern": pattern} for pattern in never]},
        },
        "additionalProperties": {"type": "string", "pattern": ASCII, "maxLength": LONGEST_HEADER},
        "description": "Values by header name; names that differ only in upper and lower case are the same header",
    }


def _word(pattern: str, least: int, described: str) -> Schema:
    return {
        "type": "string",
        "minLength": least,
        "maxLength": LONGEST,
        "allOf": [{"pattern": PRINTABLE}, {"pattern": pattern}],
        "description": f"{described}; at most {LONGEST} bytes in UTF-8",
    }


_format = choice(*FORMATS)
_OPTIONS: Mapping[str, Mapping[str, Schema]] = {
    NATS: {"format": _format, "headers": headers(*WORDS[NATS].own, begin="nats-")},
    REDIS: {"format": _format, "headers": headers(*WORDS[REDIS].own)},
    RABBITMQ: {
        "exchange": _word(PRINTABLE, 0, "Name of an exchange"),
        "format": _format,
        "headers": headers(*WORDS[RABBITMQ].own, "cc", "bcc"),
    },
    KAFKA: {
        "key": _word(PRINTABLE, 0, "Partition key; messages with the same key keep their order"),
        "format": _format,
        "headers": headers(*WORDS[KAFKA].own),
    },
    CELERY: {"queue": _word(PRINTABLE, 1, "Name of a queue")},
}
_WHERE: Mapping[str, Schema] = {
    NATS: _word(r"^(?!\$|_INBOX\.)[^\s.*>]+(\.[^\s.*>]+)*$", 1, f"Expected {WORDS[NATS].expected}"),
    REDIS: _word(PRINTABLE, 1, "Key of a stream"),
    RABBITMQ: _word(PRINTABLE, 1, "A queue"),
    KAFKA: _word(r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$", 1, "A topic"),
    CELERY: _word(r"^(?!celery\.)\S+$", 1, "Name of a task; not one of Celery's built-in tasks"),
}


def _broker(channel: str) -> Schema:
    """The options of a broker's messages over HTTP. DULY_BROKER_ALLOW decides which destinations are allowed."""
    where, place = WORDS[channel].where, _WHERE[channel]
    more = _OPTIONS[channel]
    spelled_out = [taken({where: place, **more}, where)]
    if channel == RABBITMQ:  # an exchange works without a routing key
        exchange = _word(PRINTABLE, 1, "Name of an exchange")
        spelled_out = [
            {"anyOf": [spelled_out[0], taken({where: {"const": ""}, **more, "exchange": exchange}, where, "exchange")]}
        ]
    return {"anyOf": [place, *spelled_out]}


_argument: Schema = {"type": "string", "maxLength": LONGEST_ARGUMENT, "pattern": "^[^\\x00]*$"}
_command: Schema = taken(
    {
        "argv": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_ARGUMENTS,
            "items": _argument,
            "description": "A program in a folder of the server's DULY_COMMANDS, and its arguments",
            "examples": [["/opt/jobs/backup", "--all"]],
        },
        "stdin": {"type": "string", "description": "Text on its standard input; without it, the payload as JSON"},
        "timeout": span(*COMMAND_TIMEOUTS),
    },
    "argv",
    description="A command that workers run; only for admin keys of all tenants, and where DULY_COMMANDS permits it",
)

_CHANNELS: Mapping[str, Schema] = {
    WEBHOOK: {
        "anyOf": [
            url,
            taken({"url": url, "format": _format, "timeout": timeout}, "url"),
            taken({"target": stored}, "target"),
        ]
    },
    HTTP: {
        "anyOf": [
            taken(
                {
                    "method": method,
                    "url": url,
                    "headers": headers(),
                    "body": anything,
                    "timeout": timeout,
                    "retry_statuses": retry_statuses,
                },
                "url",
            ),
            taken({"target": stored, "body": anything}, "target"),
        ]
    },
    COMMAND: _command,
    **{channel: _broker(channel) for channel in WORDS},
}

_ALLOWED = "Target: one channel, such as a webhook, with its settings. Brokers can be used only where the server's "

target: Schema = taken(
    _CHANNELS,
    minProperties=1,
    maxProperties=1,
    description=f"{_ALLOWED}DULY_BROKER_ALLOW permits it, and commands where DULY_COMMANDS does",
)
calendar_target: Schema = taken(
    {channel: schema for channel, schema in _CHANNELS.items() if channel != COMMAND},
    minProperties=1,
    maxProperties=1,
    description=f"{_ALLOWED}DULY_BROKER_ALLOW permits it",
)

_put: Mapping[str, Schema] = each_maybe({"format": _format, "timeout": timeout, "secret": secret})

new_target: Schema = taken(
    {
        "url": url,
        "channel": maybe(choice(WEBHOOK, HTTP)),
        "method": maybe(method),
        "headers": maybe(headers()),
        "retry_statuses": maybe(retry_statuses),
        **_put,
    },
    "url",
    oneOf=[
        {
            "properties": {
                "channel": {"enum": [WEBHOOK, None]},
                "method": {"type": "null"},
                "retry_statuses": {"type": "null"},
                "headers": maybe(headers(*SAID)),
            }
        },
        {
            "properties": {"channel": {"const": HTTP}, "format": {"type": "null"}, "secret": {"type": "null"}},
            "required": ["channel"],
        },
    ],
)
