"""What addresses a session may open, and how origins are written."""

import pytest

from resources_servers.browser_gym.browser.policy import (
    VERIFIER_API,
    UrlNotAllowed,
    normalize_url,
    origin_of,
)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("example.com", "https://example.com"),
        (" example.com/a?b=c ", "https://example.com/a?b=c"),
        ("localhost:8080/x", "https://localhost:8080/x"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:1/"),
        ("HTTPS://Example.com/", "HTTPS://Example.com/"),
        ("about:blank", "about:blank"),
        ("http://[::1]:80/", "http://[::1]:80/"),
    ],
)
def test_addresses(given: str, url: str) -> None:
    assert normalize_url(given) == url


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "chrome://settings",
        "view-source:http://a/",
        "about:config",
        "ftp://host/",
        "http://",
        "https:///path",
        "",
    ],
)
def test_refused_addresses(url: str) -> None:
    with pytest.raises(UrlNotAllowed):
        normalize_url(url)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://a.com/x", "http://a.com"),
        ("http://a.com:80/x", "http://a.com"),
        ("https://a.com:443/", "https://a.com"),
        ("http://A.com:8080/", "http://a.com:8080"),
        ("http://[::1]:9000/", "http://[::1]:9000"),
        ("about:blank", "null"),
    ],
)
def test_origins(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/get_expected_state",
        "/gym//API/v1///%67et_actual_state?a=b",
        "/api%2Fv1%2fget_expected_state",
        "/api%252fv1%5Cget%255factual_state",
        "/api/.%2Fv1/get_expected_state",
        "/api;a=b/v1;c/get_expected_state;d",
    ],
)
def test_spellings_of_the_verifiers_api(path: str) -> None:
    assert VERIFIER_API.match(f"http://gym{path}")


@pytest.mark.parametrize(
    "path",
    ["/?/api/v1/get_expected_state", "/#/api/v1/get_actual_state", "/api/v1/get_state", "/api/v1"],
)
def test_what_is_not_the_verifiers_api(path: str) -> None:
    assert not VERIFIER_API.match(f"http://gym{path}")


@pytest.mark.parametrize(
    "part", ["/", "api/", "/api/v1", "%2f", "/api;", "%2fapi%2f.", "%25", "/api/v1/get_"]
)
def test_a_long_address_is_looked_at_in_linear_time(part: str) -> None:
    assert not VERIFIER_API.match("http://gym/a" + part * 200_000)  # else this takes hours
