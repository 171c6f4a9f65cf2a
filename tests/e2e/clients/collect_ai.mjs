// What the Vercel AI SDK makes of streams: reads a plan from its input, prints what it saw, both as JSON.
// Run by tests/e2e/test_sdk_streams.py beside the installed packages; the plan is described in collect.py.

import { readFileSync } from 'node:fs';
import { createAnthropic } from '@ai-sdk/anthropic';
import { jsonSchema, streamText, tool } from 'ai';

const plan = JSON.parse(readFileSync(0, 'utf8'));
const provider = createAnthropic({ baseURL: `${plan.base_url}/v1`, apiKey: plan.token });
const { question } = plan;
const tools = Object.fromEntries(
  question.tools.map((each) => [each.name, tool({ inputSchema: jsonSchema(each.input_schema) })]),
);

// Parts of a stream belong together by their id; a part that never ended is lost, as it is for users of the SDK.
class Parts {
  constructor() {
    this.blocks = [];
    this.open = new Map();
  }

  read(part) {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.open.set(part.id, '');
        break;
      case 'text-delta':
      case 'reasoning-delta':
        this.open.set(part.id, this.open.get(part.id) + part.text);
        break;
      case 'text-end':
        this.blocks.push(this.open.get(part.id));
        break;
      case 'reasoning-end':
        this.blocks.push(['thinking', this.open.get(part.id)]);
        break;
      case 'tool-call':
        this.blocks.push(['call', part.toolCallId, part.toolName, part.input]);
        break;
      case 'error':
        throw part.error;
    }
  }
}

async function messageOf(model) {
  const parts = new Parts();
  try {
    const result = streamText({
      model: provider(model),
      maxRetries: 0,
      maxOutputTokens: question.max_tokens,
      stopSequences: question.stop_sequences,
      messages: question.messages,
      tools,
      providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
      onError: () => {},
    });
    for await (const part of result.fullStream) parts.read(part);
    const usage = await result.usage;
    const step = (await result.steps).at(-1);
    const metadata = step.providerMetadata?.anthropic ?? {};
    return {
      blocks: parts.blocks,
      stop: step.rawFinishReason,
      sequence: metadata.stopSequence ?? null,
      usage: [usage.inputTokenDetails.noCacheTokens, usage.inputTokenDetails.cacheReadTokens, usage.outputTokens],
    };
  } catch (error) {
    return { error: error?.type ?? error?.data?.error?.type ?? String(error?.message ?? JSON.stringify(error)) };
  }
}

const seen = [];
for (const model of plan.models) seen.push(await messageOf(model));
console.log(JSON.stringify({ version: '', seen }));
