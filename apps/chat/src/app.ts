// The plain chat page: asks before it loads a model, streams replies, can be stopped, and says what it
// measured. The engine runs in its worker; this file only moves text.
import {
  Engine,
  toEngineError,
  type ChatMessage,
  type GenerateResult,
} from '../../../web/src/api/index.js';
import { element, setProblem, showFigures } from './view.js';

interface OfferedModel {
  name: string;
  url: string;
  size_bytes: number;
}

const kWorkerUrl = new URL('/nonstop/worker.mjs', location.href);
const kMaxTokens = 1024;

const model = element('model', HTMLSelectElement);
const load = element('load', HTMLButtonElement);
const cancel = element('cancel', HTMLButtonElement);
const ask = element('ask', HTMLFormElement);
const prompt = element('prompt', HTMLTextAreaElement);
const send = element('send', HTMLButtonElement);
const stop = element('stop', HTMLButtonElement);
const log = element('log', HTMLOListElement);

const messages: ChatMessage[] = [];
/** By URL. */
const names = new Map<string, string>();
let engine: Engine | undefined;
let loading: AbortController | undefined;
let replying: AbortController | undefined;

function isOffered(value: unknown): value is OfferedModel {
  return typeof value === 'object' && value !== null && 'url' in value && 'size_bytes' in value;
}

const megabytes = (size_bytes: number) =>
  `${(size_bytes / 1e6).toFixed(size_bytes < 1e7 ? 1 : 0)} MB`;

async function offerModels(): Promise<void> {
  const response = await fetch('/models.json');
  const list: unknown = await response.json();
  const offered = Array.isArray(list) ? list.filter(isOffered) : [];
  for (const { name, url, size_bytes } of offered) {
    names.set(url, name);
    model.add(new Option(`${name} (${megabytes(size_bytes)})`, url));
  }
  load.disabled = offered.length === 0;
  if (offered.length === 0) setProblem('No model is set up on this server.');
}

async function loadModel(): Promise<void> {
  setProblem('');
  load.disabled = true;
  element('loading', HTMLElement).hidden = false;
  const bar = element('bar', HTMLProgressElement);
  const amount = element('amount', HTMLElement);
  bar.removeAttribute('value');
  amount.textContent = 'Starting …';
  loading = new AbortController();
  try {
    engine = await Engine.load(model.value, {
      workerUrl: kWorkerUrl,
      signal: loading.signal,
      onProgress: ({ loaded_bytes, total_bytes }) => {
        if (total_bytes > 0) bar.value = loaded_bytes / total_bytes;
        amount.textContent = `${megabytes(loaded_bytes)} of ${megabytes(total_bytes)}`;
      },
    });
    showReady(engine, names.get(model.value) ?? 'model');
  } catch (thrown) {
    const error = toEngineError(thrown);
    if (error.code !== 'aborted') setProblem(error.message);
    load.disabled = false;
  } finally {
    element('loading', HTMLElement).hidden = true;
    loading = undefined;
  }
}

function showReady({ info }: Engine, name: string): void {
  element('start', HTMLElement).hidden = true;
  ask.hidden = false;
  const threads = info.thread_count === 1 ? '1 thread' : `${info.thread_count} threads`;
  element('figures', HTMLElement).textContent =
    `${name}: ready on ${info.backend}, ${threads}. ${info.reason}`;
  if (!info.model.has_chat_template) prompt.placeholder = 'A base model: it continues your text …';
  prompt.focus();
}

function addMessage(role: 'user' | 'assistant', text: string): HTMLLIElement {
  const item = document.createElement('li');
  item.className = role;
  item.textContent = text;
  log.append(item);
  return item;
}

function scrollToEnd(): void {
  const main = log.parentElement;
  if (main) main.scrollTop = main.scrollHeight;
}

const kNearEndPixels = 40;

/** Makes a change, and stays at the end of the conversation; who has scrolled up is left there. */
function keepAtEnd(change: () => void): void {
  const main = log.parentElement;
  const below = main ? main.scrollHeight - main.scrollTop - main.clientHeight : 0;
  change();
  if (below < kNearEndPixels) scrollToEnd();
}

async function reply(current: Engine, text: string): Promise<void> {
  setProblem('');
  const asked = addMessage('user', text);
  const item = addMessage('assistant', '');
  item.classList.add('waiting');
  const question: ChatMessage = { role: 'user', content: text };
  replying = new AbortController();
  setReplying(true);
  scrollToEnd();
  try {
    const generation = current.generate({
      ...(current.info.model.has_chat_template
        ? { messages: [...messages, question] }
        : { prompt: text }),
      max_tokens: kMaxTokens,
      signal: replying.signal,
    });
    for await (const chunk of generation) {
      keepAtEnd(() => item.append(chunk.text));
    }
    const result: GenerateResult = await generation.result;
    if (result.finish_reason !== 'abort' || result.text !== '') {
      messages.push(question, { role: 'assistant', content: result.text });
    } else {
      takeBack(asked, item);
    }
    keepAtEnd(() => showFigures(current.info, result));
  } catch (thrown) {
    setProblem(toEngineError(thrown).message);
    if (item.textContent === '') takeBack(asked, item);
    scrollToEnd();
  } finally {
    item.classList.remove('waiting');
    replying = undefined;
    setReplying(false);
    prompt.focus();
  }
}

/** A question without a reply, stopped or refused: to be asked again, or otherwise. */
function takeBack(asked: HTMLLIElement, reply: HTMLLIElement): void {
  if (prompt.value === '') prompt.value = asked.textContent ?? '';
  asked.remove();
  reply.remove();
}

function setReplying(active: boolean): void {
  send.hidden = active;
  stop.hidden = !active;
}

load.addEventListener('click', () => void loadModel());
cancel.addEventListener('click', () => loading?.abort());
stop.addEventListener('click', () => replying?.abort());
ask.addEventListener('submit', (event) => {
  event.preventDefault();
  const text = prompt.value.trim();
  if (!engine || replying || text === '') return;
  prompt.value = '';
  void reply(engine, text);
});
prompt.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask.requestSubmit();
});

offerModels().catch((thrown: unknown) => setProblem(toEngineError(thrown).message));
