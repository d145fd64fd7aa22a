"""Names for tests, whose addresses may change from one question to the next."""

import socket
from collections.abc import Mapping, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult


class Names(AbstractResolver):
    """``Names({"hooks.example": ["93.184.216.34", "127.0.0.1"]})`` rebinds: the first question gets the first
    answer, every later one the last. An answer of several addresses is a list of them. A name without
    answers does not exist."""

    def __init__(self, answers: Mapping[str, Sequence[str | Sequence[str]]]) -> None:
        self._answers = {name: list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} does not exist")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [_result(host, address, port) for address in ([answer] if isinstance(answer, str) else answer)]

    async def close(self) -> None:
        pass


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
