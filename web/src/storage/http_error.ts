// Which failures of a download another attempt may mend, and which are final. A refused or cut
// connection and an unknown host may mend; what is wrong with the URL itself, or with the URL that a
// server redirects to, does not. Node's fetch says which it was in the cause of its error; a browser
// says only "Failed to fetch", so there a wrong redirect is tried like a cut connection.
import { EngineError } from '../wasm/error.js';

/** A failure that another attempt may mend. */
export class Transient extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** The file is no longer the one whose first bytes were read; from its start it can be read anew. */
export class FileChanged extends EngineError {
  constructor(message: string) {
    super('network', message);
  }
}

/** Reasons that undici (Node's fetch) gives for URLs that it never fetches, and ours. */
const kFinal: readonly (readonly [reason: string, ours: string])[] = [
  ['URL scheme must be a HTTP(S) scheme', 'it redirects to what is neither http: nor https:'],
  ['redirect count exceeded', 'it redirects too often'],
  ['Invalid URL', 'it redirects to what is no URL'],
  ['cross origin not allowed', 'it redirects to a URL with a user name or password'],
  ['URL cannot contain credentials', 'it redirects to a URL with a user name or password'],
  ['bad port', 'its port is one that is never fetched from'],
];

/** Refuses what no attempt could fetch. */
export function checkUrl(text: string): void {
  // A page or its worker may name a URL relative to itself.
  const base = typeof location === 'object' ? location.href : undefined;
  if (!URL.canParse(text, base)) {
    throw new EngineError('invalid_argument', `The text (${text || 'empty'}) is no URL.`);
  }
  const { username, password } = new URL(text, base);
  if (username !== '' || password !== '') {
    // Not repeated here: it may be a secret.
    throw new EngineError('invalid_argument', 'A URL with a user name or password is not read.');
  }
}

/** "ftp:" of "ftp://host/file"; undefined for a relative URL. */
export function schemeOf(url: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*:)/i.exec(url)?.[1]?.toLowerCase();
}

export function schemeError(url: string, options?: ErrorOptions): EngineError {
  return new EngineError(
    'invalid_argument',
    `The scheme (${schemeOf(url)}) of "${url}" cannot be fetched; http: and https: can.`,
    options,
  );
}

/** What a rejected fetch(), or a broken body, of `url` means. */
export function networkError(url: string, thrown: unknown): EngineError | Transient {
  const reason = reasonOf(thrown);
  const options = { cause: thrown };
  const scheme = schemeOf(url) ?? 'http:';
  if (scheme === 'blob:' || scheme === 'data:') {
    // Not repeated here: it may be the data itself.
    const sentence = `The model behind a "${scheme}" URL cannot be read (${reason}).`;
    return new EngineError('storage', sentence, options);
  }
  if (scheme !== 'http:' && scheme !== 'https:') return schemeError(url, options);
  const found = kFinal.find(([start]) => reason.startsWith(start));
  if (!found) return new Transient(reason, options);
  return new EngineError('network', `"${url}" cannot be fetched: ${found[1]}.`, options);
}

function reasonOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const cause = thrown.cause instanceof Error ? thrown.cause : undefined;
  return cause?.message || thrown.message;
}
