// What the TypeScript SDK makes of streams: reads a plan from its input, prints what it saw, both as JSON.
// Run by tests/e2e/test_sdk_streams.py beside the installed package; the plan is described in collect.py.

import { readFileSync } from 'node:fs';
import Anthropic from '@anthropic-ai/sdk';
import { VERSION } from '@anthropic-ai/sdk/version';

const plan = JSON.parse(readFileSync(0, 'utf8'));
const client = new Anthropic({ baseURL: plan.base_url, apiKey: plan.token, maxRetries: 0 });

function shortened(block) {
  if (block.type === 'text') return block.text;
  if (block.type === 'thinking') return [block.signature ? 'thinking' : 'thinking without signature', block.thinking];
  return ['call', block.id, block.name, block.input];
}

async function messageOf(model) {
  try {
    const final = await client.messages.stream({ ...plan.question, model }).finalMessage();
    const { input_tokens, cache_read_input_tokens, output_tokens } = final.usage;
    return {
      blocks: final.content.map(shortened),
      stop: final.stop_reason,
      sequence: final.stop_sequence,
      usage: [input_tokens, cache_read_input_tokens, output_tokens],
    };
  } catch (error) {
    return { error: error.error?.error?.type ?? String(error) };
  }
}

const seen = [];
for (const model of plan.models) seen.push(await messageOf(model));
console.log(JSON.stringify({ version: VERSION, seen }));
