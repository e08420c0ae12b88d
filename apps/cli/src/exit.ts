// Exit statuses by error code. The code itself is in the --json object.
import type { ErrorCodeName } from '../../../web/src/api/index.js';

interface ExitRow {
  status: number;
  what: string;
  codes: readonly ErrorCodeName[];
}

export const kExitCodes: readonly ExitRow[] = [
  { status: 0, what: 'a complete reply', codes: [] },
  { status: 1, what: 'a fault of ours', codes: ['internal', 'wrong_state'] },
  { status: 2, what: 'an option or an argument is wrong', codes: ['invalid_argument'] },
  {
    status: 3,
    what: 'the model file cannot be used',
    codes: [
      ...(['not_gguf', 'truncated', 'malformed', 'unsupported_version'] as const),
      ...(['unsupported_architecture', 'unsupported_type', 'unsupported_tokenizer'] as const),
      ...(['missing_metadata', 'missing_tensor', 'wrong_shape', 'bad_weights'] as const),
    ],
  },
  {
    status: 4,
    what: 'a file, the network or the disk failed',
    codes: ['not_found', 'network', 'storage'],
  },
  {
    status: 5,
    what: 'the context or the memory is too small',
    codes: ['context_overflow', 'out_of_memory'],
  },
  { status: 6, what: 'the chat template failed', codes: ['template_error', 'no_template'] },
  { status: 7, what: 'something is in use or too slow', codes: ['busy', 'timeout'] },
  { status: 8, what: 'the backend does not work here', codes: ['backend_failed'] },
  { status: 130, what: 'stopped by Ctrl-C', codes: ['aborted'] },
];

export function exitStatus(code: ErrorCodeName): number {
  return kExitCodes.find((row) => row.codes.includes(code))?.status ?? 1;
}
