import pytest

from translator.core.emulation.refusal import refuses_tools


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, visit ..."),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (400, "`tools` is not supported with this model"),
        (422, "Tool use is not supported by this model."),
        (400, "This model doesn't support function calling"),
        (400, "tool calling is unsupported"),
    ],
)
def test_a_refusal_of_tools_is_told_from_its_words(status, text):
    assert refuses_tools(status, text)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "tools.0.function.parameters: unknown keyword"),
        (400, "temperature is not supported with this model"),
        (400, "'messages' with role 'tool' must be a response to a preceding message with 'tool_calls'"),
        (500, "gemma does not support tools"),
        (400, ""),
    ],
)
def test_other_refusals_say_nothing_of_it(status, text):
    assert not refuses_tools(status, text)
