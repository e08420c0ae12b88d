// Small helpers of the chat page: typed access to its elements, problems, figures.
import type { EngineInfo, GenerateResult } from '../../../web/src/api/index.js';

/** The element with this id; a page without it is a fault of ours. */
export function element<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new TypeError(`The page has no element "${id}".`);
  return found;
}

export function setProblem(message: string): void {
  const problem = element('problem', HTMLElement);
  problem.textContent = message;
  problem.hidden = message === '';
}

export function showFigures(info: EngineInfo, result: GenerateResult): void {
  const { decode_tok_s, ttft_ms } = result;
  element('figures', HTMLElement).textContent = [
    ...(decode_tok_s === null ? [] : [`${decode_tok_s.toFixed(1)} tokens/s`]),
    ...(ttft_ms === null ? [] : [`first token after ${ttft_ms.toFixed(0)} ms`]),
    `${result.read_count} tokens read, ${result.token_ids.length} written`,
    `${info.backend}, ${info.thread_count} thread${info.thread_count === 1 ? '' : 's'}`,
    `${(result.stats.memory_bytes / 1e6).toFixed(0)} MB`,
    ...(result.finish_reason === 'stop' ? [] : [`ended: ${result.finish_reason}`]),
  ].join(' · ');
}
