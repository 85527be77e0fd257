// A filter before it is asked: refused if it is none, with values as runs have them. The rules are
// those of the Go package filter.
import { Problem, type Condition, type Filter, type Value } from '../api'
import { read, readTime, written } from './text'

/** What is known of a field by its name. */
export interface Name {
  name: string
  kind: 'text' | 'number' | 'time'
  free?: boolean
}

/** The fields that a question may name. */
export class Names {
  private known = new Map<string, Name>()

  constructor(fixed: Record<Name['kind'], string[]>, fields: Name[]) {
    for (const kind of ['text', 'number', 'time'] as const) {
      for (const name of fixed[kind]) this.known.set(name, { name, kind })
    }
    for (const f of fields) this.known.set(f.name, f)
  }

  /** Finds a field by its name, or by that of a setting without its table. */
  find(name: string): Name {
    const f = this.known.get(name) ?? this.known.get(`cmd_args.${name}`) ?? this.known.get(`bench_cmd_args.${name}`)
    if (f) return f
    if (/^(cmd_args|bench_cmd_args|extra_env_vars|check)\../s.test(name)) return { name, kind: 'text', free: true }
    throw refusal(`unknown field ${JSON.stringify(name)}`)
  }
}

const refusal = (text: string) => new Problem(422, `filter: ${text}`, [])

const bounds = ['min', 'above', 'max', 'below'] as const
const keys = new Set<string>(['and', 'or', 'not', 'text', 'field', 'in', 'contains', 'has', ...bounds])
const mostDepth = 20

/** The filter with full names and values as runs have them. */
export function checked(f: Filter | null | undefined, names: Names, depth = 0): Filter {
  if (f === null || f === undefined) return {}
  if (depth > mostDepth) throw refusal(`groups lie more than ${mostDepth} deep in each other`)
  for (const key of Object.keys(f)) {
    if (!keys.has(key)) throw refusal(`unknown key ${JSON.stringify(key)}`)
  }
  const said = [f.and, f.or, f.not, f.text || undefined, f.field || undefined].filter((x) => x !== undefined && x !== null)
  if (said.length > 1) throw refusal('a filter is one of and, or, not, text and field')
  if (!f.field && asks(f)) throw refusal('a condition without a field')
  if (f.and) return { and: f.and.map((x) => checked(x, names, depth + 1)) }
  if (f.or) return { or: f.or.map((x) => checked(x, names, depth + 1)) }
  if (f.not) return { not: checked(f.not, names, depth + 1) }
  if (f.text) return { text: f.text }
  return f.field ? condition(f, names) : {}
}

const given = (x: unknown) => x !== undefined && x !== null

function asks(c: Condition): boolean {
  return given(c.in) || !!c.contains || given(c.has) || bounds.some((b) => given(c[b]))
}

function condition(c: Condition, names: Names): Filter {
  const f = names.find(c.field as string)
  if (!asks(c)) throw refusal(`nothing is asked of ${f.name}`)
  const out: Filter = { field: f.name }
  if (given(c.in)) out.in = (c.in as Value[]).map((v) => valueOf(f, v))
  if (c.contains) out.contains = c.contains
  if (given(c.has)) out.has = c.has
  for (const b of bounds) {
    if (!given(c[b])) continue
    const v = valueOf(f, c[b] as Value)
    if (typeof v !== 'number') throw refusal(`${b} of ${f.name}: ${JSON.stringify(v)} is no number`)
    out[b] = v
  }
  return out
}

/** A value as runs have it in a field. */
function valueOf(f: Name, v: Value | boolean): Value {
  const x = typeof v === 'boolean' ? String(v) : typeof v === 'number' ? v + 0 : v
  if (x === null || x === '' || (typeof x === 'number' && !Number.isFinite(x))) throw refusal(`a value of ${f.name} is null or empty`)
  if (f.kind === 'time' && typeof x === 'string') {
    const ms = readTime(x)
    if (ms === undefined) throw refusal(`${JSON.stringify(x)} is no time`)
    return ms
  }
  return f.kind === 'text' && !f.free ? written(x) : read(written(x))
}
