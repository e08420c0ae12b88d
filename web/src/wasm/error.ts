// EngineError: the one error type of the package. Its code is the engine's own (abi.gen.ts), the same
// in C++, TypeScript and on the command line; its message is a full sentence. It crosses threads as
// a plain record (ErrorRecord), so a code is never turned into text on the way. Whatever text of a model,
// a template or a server a message repeats, it stays one printable line.
import { ErrorCode, type ErrorCodeName } from './abi.gen.js';

export type { ErrorCodeName };

export interface ErrorRecord {
  code: ErrorCodeName;
  message: string;
}

const kUnprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** One line: control characters, and those that reorder or hide text, as JSON escapes. */
export function printable(text: string): string {
  const escape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replace(kUnprintable, (found) =>
    found === '\n' ? '\\n' : found.split('').map(escape).join(''),
  );
}

export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly code: ErrorCodeName;

  constructor(code: ErrorCodeName, message: string, options?: ErrorOptions) {
    super(printable(message), options);
    this.code = code;
  }

  /** The same error with what the caller knows in front: "Context: message". */
  with(context: string): EngineError {
    return new EngineError(this.code, `${context}: ${this.message}`, { cause: this });
  }
}

const kNames = new Map<number, string>(
  Object.entries(ErrorCode).map(([name, value]) => [value, name]),
);

export function isErrorCodeName(name: string): name is ErrorCodeName {
  return Object.hasOwn(ErrorCode, name);
}

export function errorCodeName(code: number): ErrorCodeName {
  const name = kNames.get(code);
  return name !== undefined && isErrorCodeName(name) ? name : 'internal';
}

/** Any thrown value as an EngineError; an AbortSignal's reason becomes "aborted". */
export function toEngineError(thrown: unknown): EngineError {
  if (thrown instanceof EngineError) return thrown;
  if (thrown instanceof Error) {
    if (thrown.name === 'AbortError') {
      return new EngineError('aborted', 'The caller asked to stop.', { cause: thrown });
    }
    if (thrown.name === 'TimeoutError') {
      return new EngineError('timeout', 'The time that the caller allowed is over.', {
        cause: thrown,
      });
    }
    return new EngineError('internal', `${thrown.name}: ${thrown.message}`, { cause: thrown });
  }
  return new EngineError('internal', `An unknown value was thrown (${String(thrown)}).`);
}

export function toErrorRecord(thrown: unknown): ErrorRecord {
  const error = toEngineError(thrown);
  return { code: error.code, message: error.message };
}

export function fromErrorRecord(record: ErrorRecord): EngineError {
  return new EngineError(record.code, record.message);
}
