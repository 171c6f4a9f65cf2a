// A conversation with the Messages API through the TypeScript SDK; prints what it saw as JSON.
// Run by tests/e2e/test_other_sdks.py beside the installed package: `node talk.mjs BASE_URL TOKEN`.

import Anthropic from '@anthropic-ai/sdk';
import { VERSION } from '@anthropic-ai/sdk/version';

const [baseURL, apiKey] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const hello = { role: 'user', content: 'Hello' };
const weather = {
  name: 'get_weather',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

function converse(messages, model = 'demo') {
  return client.messages.stream({ model, max_tokens: 300, messages, tools: [weather] }).finalMessage();
}

async function errorOf(model) {
  try {
    await converse([hello], model);
  } catch (error) {
    return error.error?.error?.type ?? String(error);
  }
  return null;
}

const question = { role: 'user', content: 'Use get_weather for Paris' };
const asked = await converse([question]);
const call = asked.content[0];
const result = { type: 'tool_result', tool_use_id: call.id, content: '18 degrees' };
const final = await converse([question, { role: 'assistant', content: asked.content }, { role: 'user', content: [result] }]);
const whole = await client.messages.create({ model: 'demo', max_tokens: 300, messages: [hello] });
const streamed = await converse([hello]);
const thinking = await converse([hello], 'script/think');

console.log(
  JSON.stringify({
    version: VERSION,
    whole: whole.content[0].text,
    streamed: streamed.content[0].text,
    output_tokens: [whole.usage.output_tokens, streamed.usage.output_tokens],
    stop_reasons: [whole.stop_reason, streamed.stop_reason],
    call: [call.name, call.input],
    final: final.content[0].text,
    thinking: thinking.content.map((block) => block.type),
    error: await errorOf('script/errorframe=429,frame=3'),
  }),
);
