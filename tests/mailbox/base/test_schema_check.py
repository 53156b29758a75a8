"""Schemas of models and servers: what fits, and that a schema makes nobody read or ask anything."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from swarm.mailbox.base.schema_check import SchemaUnusable, find_schema_violation, open_validator

PLAIN = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1}', None),
        ('{"a": "x"}', "does not fit the output schema at a:"),
        ("{}", "does not fit the output schema at the top:"),
        ("{", "is not JSON"),
    ],
)
def test_a_violation_names_its_place(text, says):
    found = find_schema_violation(text, PLAIN)
    assert (found is None) if says is None else says in (found or "")


def test_a_reference_to_a_server_is_refused_and_nobody_is_asked():
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

        def log_message(self, format, *args):
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/secret"
        try:
            with pytest.raises(SchemaUnusable):
                open_validator({"properties": {"a": {"$ref": address}}})
            assert "not usable" in (find_schema_violation("{}", {"$ref": address}) or "")
        finally:
            server.shutdown()
    assert asked == []


def test_a_reference_to_a_file_is_refused(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"type": "integer"}')
    with pytest.raises(SchemaUnusable):
        open_validator({"properties": {"a": {"$ref": path.as_uri()}}})


def test_a_reference_within_the_schema_is_followed():
    schema: dict[str, object] = {"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a"}
    assert find_schema_violation("1", schema) is None
    assert "not of type" in (find_schema_violation('"x"', schema) or "")


def test_a_linear_check_refuses_patterns_that_look_ahead():
    schema: dict[str, object] = {"pattern": "^(a+)+(?=b)$"}
    open_validator(schema)
    with pytest.raises(SchemaUnusable):
        open_validator(schema, linear=True)
