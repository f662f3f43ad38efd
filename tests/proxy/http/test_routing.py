from __future__ import annotations

import json

from proxy.http.routing import Answer, Request, Route, Routes, json_answer

from .serving import up

ROUTES = Routes([Route("GET", "/a", up), Route("PUT", "/a", up), Route("POST", "/b", up)])


def test_each_method_and_path_has_its_route() -> None:
    for method, path, found in (("GET", "/a", "GET"), ("HEAD", "/a", "GET"), ("PUT", "/a", "PUT")):
        route = ROUTES.find(method, path)
        assert isinstance(route, Route)
        assert route.method == found


def test_an_unknown_path_names_those_there_are() -> None:
    answer = ROUTES.find("GET", "/c")
    assert isinstance(answer, Answer)
    assert (answer.status, json.loads(answer.body)["paths"]) == (404, ["/a", "/b"])


def test_a_method_that_is_not_allowed_is_told_which_are() -> None:
    answer = ROUTES.find("DELETE", "/a")
    assert isinstance(answer, Answer)
    assert (answer.status, answer.headers) == (405, (("allow", "GET, HEAD, PUT"),))
    assert json.loads(answer.body) == {"error": "DELETE is not allowed here; use GET or PUT"}


def test_headers_are_joined() -> None:
    request = Request("GET", "/", headers=(("accept", "a"), ("x", "y"), ("accept", "b")))
    assert request.header("accept") == "a,b"
    assert request.header("host") == ""


def test_what_json_has_no_word_for_is_null() -> None:
    assert json_answer(200, {"rate": float("inf")}).body == b'{"rate":null}\n'
