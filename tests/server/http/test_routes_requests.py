"""The document of the interface, held against the server by generated requests with the token of every role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.server.servers import ROLES, LocalServer, local_server

pytestmark = pytest.mark.slow
schemathesis = pytest.importorskip("schemathesis", reason="the extra 'dev-all' is not installed")

EXAMPLES = 30
BEYOND_SCHEMAS = "RejectedPositiveData"  # such as names that occur twice: a schema cannot say it


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with local_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def operations(server: LocalServer) -> Iterator[Any]:
    document = schemathesis.openapi.from_dict(server.application.document)
    document.app = server.application
    for operation in document.get_all_operations():
        if operation.ok().path != "/v1/events":  # a stream without an end
            yield operation.ok()


@pytest.mark.parametrize("role", ROLES)
def test_every_answer_is_as_documented(server: LocalServer, role: str) -> None:
    headers = {"Authorization": f"Bearer {server.tokens[f'shop.{role}']}", "Host": "testserver"}
    wrong_answers = [problem for operation in operations(server) for problem in problems(operation, headers)]
    assert wrong_answers == []


def problems(operation: Any, headers: dict[str, str]) -> list[tuple[str, str, str]]:
    problems: list[tuple[str, str, str]] = []

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy())
    def request(case: Any) -> None:
        try:
            case.call_and_validate(headers=headers)
        except schemathesis.errors.InternalError:
            raise
        except BaseExceptionGroup as group:
            wrong = [exception for exception in group.exceptions if type(exception).__name__ != BEYOND_SCHEMAS]
            problems.extend((operation.method, operation.path, str(problem)[:500]) for problem in wrong)

    request()
    return problems
