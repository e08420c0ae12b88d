// The prompt of every subject, ours and the peers', in words: each is one token in the vocabularies of
// the models that are compared (whoever reads it checks), so that its length can be chosen exactly.
const kWords =
  'sea was calm and the wind was low that night but no one on the ship could see land'.split(' ');

/** `token_count` words; the first has a space in front of it as well. */
export function promptText(token_count: number): string {
  let text = '';
  for (let i = 0; i < token_count; i++) text += ` ${kWords[i % kWords.length] ?? ''}`;
  return text;
}

/** Any number of ids, by going round: for models with other vocabularies. */
export function cycled(ids: readonly number[], count: number): number[] {
  return Array.from({ length: count }, (_, i) => ids[i % ids.length] ?? 0);
}
