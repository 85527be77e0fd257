// Which runs meet a filter. The meaning is that of Filter.Matches in the Go package filter.
import type { Condition, Filter, Value } from '../api'
import type { Column, Columns } from './columns'
import { lower } from './text'

/** One for each run: 1 if it meets the filter. */
export type Mask = Uint8Array<ArrayBuffer>

/** The runs that meet a checked filter. */
export function mask(f: Filter, columns: Columns): Mask {
  const all = () => new Uint8Array(columns.runs).fill(1)
  if (f.and) return f.and.reduce<Mask>((m, x) => both(m, mask(x, columns)), all())
  if (f.or) return f.or.reduce<Mask>((m, x) => either(m, mask(x, columns)), new Uint8Array(columns.runs))
  if (f.not) return mask(f.not, columns).map((x) => 1 - x)
  if (f.text) return anywhere(f.text, columns)
  if (!f.field) return all()
  const column = columns.get(f.field)
  const small = f.contains ? column.small() : undefined
  return spread(column, column.values.map((v, i) => met(f, v, small?.[i])))
}

export function both(a: Mask, b: Mask): Mask {
  return a.map((x, i) => x & (b[i] as number))
}

function either(a: Mask, b: Mask): Mask {
  return a.map((x, i) => x | (b[i] as number))
}

function anywhere(text: string, columns: Columns): Mask {
  const wanted = lower(text)
  const out = new Uint8Array(columns.runs)
  for (const name of columns.names) {
    const column = columns.get(name)
    const has = column.small().map((s) => s?.includes(wanted) ?? false)
    if (has.includes(true)) spread(column, has, out)
  }
  return out
}

/** Adds the runs whose value is met. */
function spread(column: Column, met: boolean[], out: Mask = new Uint8Array(column.codes.length)): Mask {
  column.codes.forEach((code, i) => {
    if (met[code]) out[i] = 1
  })
  return out
}

function met(c: Condition, v: Value, small: string | undefined): boolean {
  const bounded = c.min !== undefined || c.above !== undefined || c.max !== undefined || c.below !== undefined
  if (c.has !== undefined && c.has !== (v !== null)) return false
  if (v === null) return c.has !== undefined && !bounded && c.in === undefined && !c.contains
  if (c.in !== undefined && !c.in.includes(v)) return false
  if (c.contains && !(small?.includes(lower(c.contains)) ?? false)) return false
  return !bounded || (typeof v === 'number' && within(c, v))
}

function within(c: Condition, x: number): boolean {
  const of = (b: number | string | undefined) => b as number | undefined // a checked filter has numbers
  const [min, above, max, below] = [of(c.min), of(c.above), of(c.max), of(c.below)]
  return (min === undefined || x >= min) && (above === undefined || x > above) &&
    (max === undefined || x <= max) && (below === undefined || x < below)
}

/** A part of a filter that must be met besides all others, and the field that it asks about alone. */
export interface Part {
  filter: Filter
  field?: string
}

export function partsOf(f: Filter): Part[] {
  if (f.and) return f.and.flatMap(partsOf)
  if (!f.or && !f.not && !f.text && !f.field) return []
  const asked = fieldsOf(f)
  return [{ filter: f, field: asked.size === 1 && !asked.has('') ? [...asked][0] : undefined }]
}

/** The fields of a filter; '' stands for all of them. */
function fieldsOf(f: Filter, into = new Set<string>()): Set<string> {
  for (const x of [...(f.and ?? []), ...(f.or ?? []), ...(f.not ? [f.not] : [])]) fieldsOf(x, into)
  if (f.text) into.add('')
  if (f.field) into.add(f.field)
  return into
}
