"""The API does what its description says, whatever is sent to it."""

import json
import socket
from urllib.parse import urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from web.doors import BEARER

# a description cannot say which knobs an experiment has; what it has not is refused, rightly
UNKNOWN = {"positive_data_acceptance"}


@pytest.fixture(scope="module")
def described(server):
    return schemathesis.openapi.from_url(f"{server}/api/openapi.json", headers=BEARER)


def operations():
    """Every route, so that each is a test of its own; the server tells whether one is missing."""
    return [
        "POST /api/claims/{chapter}/{page}/{claim}",
        "POST /api/claims/{chapter}/{page}/{claim}/check",
        "POST /api/heroes/{chapter}/{page}",
        "GET /api/runs", "POST /api/runs", "GET /api/runs/compare", "GET /api/runs/{name}",
        "GET /api/runs/{name}/curves", "GET /api/runs/{name}/figures/{figure}",
        "POST /api/runs/{name}/cancel", "POST /api/runs/{name}/resume",
        "GET /api/runs/{name}/events",
        "GET /api/playground/choices", "POST /api/playground", "POST /api/playground/step",
        "POST /api/playground/columns",
    ]


def test_every_route_is_tested_and_described(inside):
    paths = inside.get("/api/openapi.json").json()["paths"]
    found = [(f"{method.upper()} {path}", what) for path, one in paths.items()
             for method, what in one.items()]
    assert sorted(name for name, _ in found) == sorted(operations())
    for name, what in found:
        assert what["summary"], name
        assert {"422", "404", "503"} <= set(what["responses"]), name


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("name", operations())
def test_every_route_keeps_its_word(described, name, mode):
    """No server error, only declared statuses, and answers of the declared form."""
    method, path = name.split()
    operation = described[path][method]
    asked = []

    @settings(
        max_examples=15, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def validate(case):
        asked.append(case)
        unknown = [CHECKS.get_one(one) for one in UNKNOWN]
        case.call_and_validate(excluded_checks=unknown, headers=BEARER, timeout=60)

    try:
        validate()
    except Exception as error:
        if "Unsatisfiable" in type(error).__name__:  # a route without a parameter has no wrong one
            assert mode is GenerationMode.NEGATIVE
            return
        raise
    assert asked


def test_what_the_terminal_says_the_api_says(inside):
    """The same sentence for a bad knob, whether typed or sent as a number."""
    address = "/api/claims/connectionism/hopfield/phase_transition"
    sentence = "connectionism/hopfield:phase_transition: load must be in [0.02, 0.25]; got 3."
    for value in ("3", 3):
        answer = inside.post(address, json={"knobs": {"load": value}})
        assert (answer.status_code, answer.json()) == (422, {"error": sentence})
    answer = inside.post(address, json={"knobs": {"laod": 0.1}})
    assert answer.status_code == 422
    assert answer.json()["error"].endswith("there is no knob 'laod'. Did you mean 'load'?")
    answer = inside.post(address.replace("phase", "fase"), json={})
    assert answer.status_code == 404
    assert "Did you mean 'phase_transition'?" in answer.json()["error"]


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b'{"seed": -1}', b'{"seed": 1e400}', b'{"seed": "0"}',
    b'{"knobs": {"load": NaN}}', b'{"knobs": {"load": [[[[1]]]]}}', b'{"more": 1}',
    b'{"knobs": {"n": 1' + b"0" * 400 + b"}}", b'{"seed": 1' + b"0" * 5000 + b"}",
    b'{"knobs": {"\\ud800": 1}}', b'{"\\udfff": 1}',  # half a character
    b'{"knobs": {"n": 1e300}}', json.dumps({"knobs": {"load": "9" * 999}}).encode(),
    b'{"knobs": ' + b'{"a": ' * 500 + b"1" + b"}" * 501,
])
def test_hostile_bodies_get_a_sentence(inside, body):
    answer = inside.post(
        "/api/claims/connectionism/hopfield/phase_transition", content=body,
        headers={"content-type": "application/json"},
    )
    assert answer.status_code in (400, 422)
    assert len(answer.json()["error"]) < 500


@pytest.mark.parametrize("address", [
    "/assets/../app.py", "/assets/..%2fapp.py", "/assets/%2e%2e/app.py", "/runs/..%2f..%2fetc",
    "/assets/....//app.py", "/networks/..%5c..%5capp.py", "/assets/%00", "//etc/passwd",
    "/api/runs/../../etc/passwd/events", "/runs/..", "/static/app.py", "/templates/base.html.jinja",
])
def test_no_path_leads_out_of_what_is_served(server, address):
    """The client is told to leave the address as it is; nothing of ours comes back."""
    where = urlsplit(server)
    with socket.create_connection((where.hostname, where.port), timeout=10) as line:
        head = (f"GET {address} HTTP/1.1", f"Host: {where.netloc}", "Connection: close",
                f"Authorization: {BEARER['authorization']}")
        line.sendall("\r\n".join([*head, "", ""]).encode())
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert answer.split(b" ", 2)[1] in (b"404", b"400", b"405")
    assert b"create_app" not in answer
    assert b"root:" not in answer
