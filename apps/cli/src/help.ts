// The help text, from the tables.
import { kExitCodes } from './exit.js';
import { kOptions, kVerbs, type OptionRow } from './options.js';
import { verbNames } from './parse.js';

const kGroups: readonly OptionRow['group'][] = [
  ...(['Model', 'Prompt', 'Reply', 'Output', 'Verbs', 'Server'] as const),
];
const kColumn = 30;

function line(left: string, right: string): string {
  const gap =
    left.length + 2 >= kColumn ? `\n${' '.repeat(kColumn)}` : ' '.repeat(kColumn - left.length - 2);
  return `  ${left}${gap}${right}`;
}

function optionLine(option: OptionRow): string {
  const value = option.choices ? option.choices.join('|') : option.value;
  const repeat = option.repeat ? ' …' : '';
  return line(`--${option.name}${value ? ` ${value}` : ''}${repeat}`, option.help);
}

export function helpText(): string {
  const groups = kGroups.map((group) => {
    const rows = kOptions.filter((option) => option.group === group).map(optionLine);
    return `${group}:\n${rows.join('\n')}`;
  });
  return [
    'Nonstop runs a language model on this machine.',
    '',
    'Usage: ./run "prompt" [options]      a prompt of "-" is read from stdin',
    '       ./run VERB [options]',
    '       ./run                         serves the chat page',
    '',
    `Verbs:\n${verbNames()
      .map((verb) => line(verb, kVerbs[verb]))
      .join('\n')}`,
    '',
    groups.join('\n\n'),
    '',
    `Exit codes:\n${kExitCodes.map(({ status, what }) => line(String(status), what)).join('\n')}`,
  ].join('\n');
}
