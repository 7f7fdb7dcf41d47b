"""Requests are written once: public functions have their fields and defaults, commands and the service their words."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields

import pytest
from typer.main import get_command

import maquette as mq
from maquette.cli.app import app
from maquette.requests import (
    AnswerTerms,
    Payer,
    PlanRequest,
    Privacy,
    ReleaseRequest,
    SessionRequest,
    TableFormat,
    fields_of,
)

FUNCTIONS = [
    (mq.release, ReleaseRequest, set()),
    (mq.release, Payer, set()),
    (mq.session, SessionRequest, set()),
    (mq.session, Payer, set()),
    (mq.choose, AnswerTerms, set()),
    (mq.choose, Payer, set()),
    (mq.count_stream, AnswerTerms, set()),
    (mq.above_threshold, AnswerTerms, set()),
    (mq.discover, Privacy, set()),
    (mq.draft, TableFormat, set()),
    # a plan needs both; `required` takes one of them and an error
    (mq.plan, PlanRequest, {"alpha", "n", "epsilon"}),
    (mq.required, PlanRequest, {"alpha", "weight"}),
]


@pytest.mark.parametrize(("function", "request_type", "left_out"), FUNCTIONS)
def test_a_public_function_has_the_fields_and_defaults_of_its_request(function, request_type, left_out):
    parameters = inspect.signature(function).parameters
    for field in fields(request_type):
        if field.name in left_out:
            continue
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        assert parameters[field.name].default == default, field.name


COMMANDS = [
    ("release", ReleaseRequest),
    ("release", Payer),
    ("ask", SessionRequest),
    ("plan", PlanRequest),
    ("choose", AnswerTerms),
]


@pytest.mark.parametrize(("name", "request_type"), COMMANDS)
def test_a_command_says_of_every_field_what_the_request_says(name, request_type):
    command = get_command(app).commands[name]  # pyright: ignore[reportAttributeAccessIssue]
    options = {option.name: option for option in command.params}
    for field in fields_of(request_type):
        assert options[field.name].help == field.help.text
        assert options[field.name].required == field.is_required


def test_the_schema_of_the_service_has_the_bounds_and_words_of_the_request():
    from maquette.web.requests import ReleaseRequest as Body

    schema = Body.model_json_schema()
    said = {field.name: field.help.text for field in fields_of(ReleaseRequest)}
    for name in ("epsilon", "delta", "beta", "mechanism"):
        assert schema["properties"][name]["description"] == said[name]
    assert schema["properties"]["epsilon"]["exclusiveMinimum"] == 0
    assert schema["properties"]["beta"]["exclusiveMaximum"] == 1
    assert schema["required"] == ["epsilon"]
