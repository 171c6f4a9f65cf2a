// A conversation with a tool through the TypeScript SDK's tool runner; prints what it saw as JSON.
// Run by tests/e2e/test_tool_runner.py beside the installed package: `node run_tools.mjs BASE_URL TOKEN PROMPT stream|whole`.

import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';

const [baseURL, apiKey, prompt, mode] = process.argv.slice(2);
const asked = [];

async function watched(url, options) {
  const answer = await fetch(url, options);
  const { thread, messages } = JSON.parse(options.body);
  asked.push({ thread: thread?.type ?? null, messages: messages.length, status: answer.status });
  return answer;
}

const client = new Anthropic({ baseURL, apiKey, maxRetries: 0, fetch: watched });
const cities = [];
const weather = betaTool({
  name: 'get_weather',
  description: 'Tell the weather of a city.',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  run: ({ city }) => {
    cities.push(city);
    return '18 degrees';
  },
});
const runner = client.beta.messages.toolRunner({
  model: 'demo',
  max_tokens: 300,
  messages: [{ role: 'user', content: prompt }],
  tools: [weather],
  stream: mode === 'stream',
});
const final = await runner.runUntilDone();
console.log(JSON.stringify({ asked, cities, final: final.content[0].text }));
