"""What servers say when they refuse, in their own words: too long, used up, or never to be asked
again the same way. The sources are named in `failure_texts.toml`.
"""

import json

import pytest

from swarm.worker.gateway.failure_texts import load_failure_texts
from swarm.worker.gateway.failures import (
    ErrorBody,
    FailureOrigin,
    classify_status,
    classify_stream_error,
)

ORIGIN = FailureOrigin("P", "http://x/v1")


def failure_of(status, body, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return classify_status(status, named, data, origin=ORIGIN)


def error(message, **fields):
    return {"error": {"message": message, **fields}}


TOO_LONG = [
    (400, error("input length and `max_tokens` exceed context limit: 196000 + 20000 > 200000, "
                "decrease input length", type="invalid_request_error"), 200000),
    (400, [error("The input token count (1200000) exceeds the maximum number of tokens allowed "
                 "(1048576).", code=400, status="INVALID_ARGUMENT")], 1048576),
    (400, error("Invalid request: Your request exceeded model token limit: 131072 (requested: "
                "140000)"), 131072),
    (400, error("<400> InternalError.Algo.InvalidParameter: Range of input length should be "
                "[1, 129024]"), 129024),
    (400, error("Prompt exceeds max length", code="1261"), None),
    (400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 131072 but "
           "the request contains 140000 tokens."}, 131072),
    (400, {"message": "Input is too long for requested model."}, None),
    (400, {"error": "Trying to keep the first 5000 tokens when context the overflows. However, the "
           "model is loaded with context length of only 4096 tokens, which is not enough."}, 4096),
    (413, error("Request body too large for gpt-4o model. Max size: 8000 tokens.",
                code="tokens_limit_reached"), 8000),
    (400, error("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
                "maximum context length"), 32768),
    (400, {"object": "error", "message": "The input (5000 tokens) is longer than the model's "
           "context length (4096 tokens)."}, 4096),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. "
           "Given: 5000 `inputs` tokens"}, 4097),
    (400, error("prompt token count of 130000 exceeds the limit of 128000",
                code="model_max_prompt_tokens_exceeded"), 128000),
    (500, error("the request exceeds the available context size (4096 tokens)"), 4096),
    (429, error("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested "
                "40000.", type="tokens", code="rate_limit_exceeded"), 30000),
    (400, error("Provider returned error", code=400, metadata={"raw": json.dumps(
        error("maximum context length is 65536 tokens"))}), 65536),
    (400, error("输入内容过长"), None),
    (500, {"error": "input length exceeds context length"}, None),
    (400, {"base_resp": {"status_code": 2013, "status_msg":
           "invalid params, context window exceeds limit (2013)"}}, None),
    (400, error("max_tokens must be at least 1, got -1024."), None),
    (429, error("Extra usage is required for long context requests.", type="rate_limit_error"),
     None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "window"), TOO_LONG)
def test_each_servers_words_for_too_long_are_known_with_the_window_they_name(status, body, window):
    failure = failure_of(status, body)
    assert (failure.kind, failure.window_tokens) == ("context_window_exceeded", window)
    assert not failure.retryable


def test_the_same_words_count_within_a_stream():
    said = "Your request exceeded model token limit: 131072 (requested: 140000)"
    failure = classify_stream_error(ErrorBody(message=said), provider="P")
    assert (failure.kind, failure.window_tokens) == ("context_window_exceeded", 131072)


@pytest.mark.parametrize(
    ("status", "body", "may_be"),
    [
        (413, "<html>413 Request Entity Too Large</html>", True),
        (413, "", True),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "the list is too long"}]}, True),
        (400, error("the number of tokens is over what this deployment takes"), True),
        (400, error("Die Eingabe ist zu lang"), True),
        (400, error("プロンプトが長すぎます"), True),
        (400, error("最大 토큰 수를 초과"), True),
        (400, error("请求的token数超过模型限制"), True),
        (
            422,
            {
                "detail": [
                    {
                        "msg": "String should have at most 100000 characters",
                        "loc": ["body", "messages", 0, "content"],
                    }
                ]
            },
            True,
        ),
        (400, error("KV cache is full"), True),
        (400, error("Cannot fit the prompt into the model's context"), True),
        (400, error("no such field"), False),
        (400, error("max_tokens: 128000 > 64000, the maximum of output tokens"), False),
        (400, error("Invalid 'tools': array too long, maximum length 128"), False),
        (400, error("Invalid 'input[3].call_id': string too long, maximum length 64"), False),
        (404, error("token length"), False),
        (500, error("token length"), False),
    ],
)
def test_unknown_words_about_a_size_may_mean_too_long_unless_they_name_another_part(
    status, body, may_be
):
    failure = failure_of(status, body)
    assert failure.may_be_too_long is may_be
    assert failure.kind != "context_window_exceeded"


USED_UP = [
    (429, error("Insufficient balance or no resource package. Please recharge.", code="1113")),
    (429, error("余额不足或无可用资源包,请充值。", code="1113")),
    (429, error("Your account is suspended, please check your plan and billing details",
                type="exceeded_current_quota_error")),
    (429, error("You have reached your monthly usage limit for this plan")),
    (429, error("You exceeded your current quota. Quota exceeded for metric: free_tier_requests, "
                "limit: 0, model: x. Please retry in 51.2s.", status="RESOURCE_EXHAUSTED")),
    (429, error("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock more")),
    (429, [error("Quota exceeded", details=[{"quotaId": "GenerateRequestsPerDayPerModel"}])]),
    (429, error("You exceeded your current quota, please check your plan and billing details.",
                type="insufficient_quota")),
    (402, error("Insufficient Balance")),
    (402, error("This request requires more credits, or fewer max_tokens. You can only afford 12")),
    (403, error("The free tier of the model has been exhausted", code="AllocationQuota")),
    (400, error("Your credit balance is too low to access the API")),
    (429, error("Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in "
                "2h3m4s.")),
    (429, error("Access denied, please make sure your account is in good standing.",
                code="Arrearage")),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body"), USED_UP)
def test_used_up_credit_is_final_at_once_under_any_status(status, body):
    failure = failure_of(status, body)
    assert (failure.kind, failure.retryable) == ("usage_limit_exceeded", False)


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached for gpt-4o on requests per min (RPM): Limit 3, Used 3, Requested 1.",
        "You exceeded your current quota. Quota exceeded for metric: requests, limit: 10. Please "
        "retry in 30.5s.",
        "Rate limit reached on requests per day (RPD): Limit 200. Please try again in 7m12s.",
        "Resource has been exhausted (e.g. check quota).",
        "This request would exceed your organization's rate limit of 30,000 input tokens per "
        "minute",
        "The engine is currently overloaded, please try again later",
    ],
)
def test_a_limit_that_comes_back_soon_is_waited_for(message):
    failure = failure_of(429, error(message))
    assert (failure.kind, failure.scope) == ("overloaded", "everyone")


def test_a_delay_in_googles_form_is_obeyed():
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    failure = failure_of(429, [error("You exceeded your current quota", details=[detail])])
    assert (failure.kind, failure.retry_after_s) == ("overloaded", 34.0)


@pytest.mark.parametrize(
    "message",
    [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Error rendering prompt with jinja template: 'x' is undefined",
        "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]",
        "System message must be at the beginning.",
    ],
)
def test_a_template_that_refuses_is_not_asked_again_the_same_way_though_it_says_500(message):
    failure = failure_of(500, error(message))
    assert (failure.kind, failure.retryable) == ("bad_request", False)


def test_what_an_error_repeats_of_the_request_is_not_read_as_its_reason():
    echoed = {"messages": [{"content": "prompt is too long; insufficient balance"}]}
    body = {"detail": [{"loc": ["body", "x"], "msg": "Field required", "input": echoed}]}
    failure = failure_of(422, body)
    assert (failure.kind, failure.may_be_too_long) == ("bad_request", False)


def test_every_line_of_the_table_names_its_source():
    assert all(line.source and line.text for line in load_failure_texts())
