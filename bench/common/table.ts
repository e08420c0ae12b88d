// The result as text: one table of what was measured, one of ratios.
import { describeSetup, kTokenCosts, type Unit } from './cases.js';
import { kBestPrefix, kReadBase, type Row } from './results.js';

type Cell = string;
const kRightAligned = /^[-\d.,–%×nat ]*$/;

/** Columns as wide as their widest cell; numbers to the right. */
export function formatTable(head: readonly Cell[], rows: readonly (readonly Cell[])[]): string {
  const widths = head.map((cell, i) => Math.max(cell.length, ...rows.map((row) => width(row[i]))));
  const line = (cells: readonly Cell[], is_head: boolean) =>
    widths
      .map((column_width, i) => {
        const cell = cells[i] ?? '';
        const is_number = rows.every((row) => kRightAligned.test(row[i] ?? ''));
        return is_number && (is_head || cell !== '')
          ? cell.padStart(column_width)
          : cell.padEnd(column_width);
      })
      .join('  ')
      .trimEnd();
  const rule = widths.map((column_width) => '-'.repeat(column_width)).join('  ');
  return [line(head, true), rule, ...rows.map((row) => line(row, false))].join('\n');
}

function width(cell: Cell | undefined): number {
  return cell?.length ?? 0;
}

/** Three significant digits, more where they are before the point. */
export function formatNumber(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

function share(row: Row): string {
  const read = row.ratios.find(({ to }) => to === kReadBase);
  return read ? `${(read.median * 100).toFixed(0)} %` : '';
}

const kCostUnits: readonly Unit[] = Object.values(kTokenCosts);

/** What tokens cost on the GPU stands in a table of its own (formatCosts). */
export function formatRows(rows: readonly Row[]): string {
  const head = [
    ...['model', 'what', 'subject', 'median', 'min', 'max', 'unit'],
    ...['of read', 'KL, nat'],
  ];
  const cells = rows
    .filter(({ unit }) => !kCostUnits.includes(unit))
    .map((row) => [
      row.model,
      row.what,
      describeSetup(row),
      ...[row.median, row.min, row.max].map(formatNumber),
      row.unit,
      share(row),
      row.mean_kl === null ? '' : row.mean_kl.toFixed(4),
    ]);
  return formatTable(head, cells);
}

/** The medians of a token's costs, a line for each case and subject; empty without any. */
export function formatCosts(rows: readonly Row[]): string {
  const costs = rows.filter(({ unit }) => kCostUnits.includes(unit));
  if (costs.length === 0) return '';
  const units = kCostUnits.filter((unit) => costs.some((row) => row.unit === unit));
  const lines = new Map<string, Cell[]>();
  for (const row of costs) {
    const begin = [row.model, row.what, describeSetup(row)];
    const key = begin.join('\n');
    const line = lines.get(key) ?? [...begin, ...units.map(() => '')];
    line[begin.length + units.indexOf(row.unit)] = formatNumber(row.median);
    lines.set(key, line);
  }
  return formatTable(['model', 'what', 'subject', ...units], [...lines.values()]);
}

/** Ratios other than the share of reading, which stands in the first table. */
export function formatRatios(rows: readonly Row[]): string {
  const cells = rows.flatMap((row) =>
    row.ratios
      .filter(({ to }) => to !== kReadBase)
      .map(({ to, median, min, max }) => [
        row.model,
        row.what,
        row.unit,
        describeSetup(row),
        to.startsWith(kBestPrefix) ? `the ${to}` : to,
        ...[median, min, max].map((value) => `${value.toFixed(2)}×`),
      ]),
  );
  if (cells.length === 0) return '';
  return formatTable(
    ['model', 'what', 'unit', 'subject', 'against', 'median', 'min', 'max'],
    cells,
  );
}
