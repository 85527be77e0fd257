// What two sets of runs are called: by that in which their filters differ.
import type { Field, Filter } from './api'
import { asChoice, parts, sentence } from './filter'
import { formatValue, nameOf } from './format'

// Values of these say by themselves what they are.
const plain = ['gpu', 'cmd_args.model', 'engine', 'scenario', 'test', 'suite', 'kind', 'hosts', 'partition', 'image']
const longest = 60 // a name stands in every sentence of the answer

type Fields = Map<string, Field>

/** Names of the baseline and of what is compared with it; undefined if the filters are the same. */
export function sideNames(a: Filter, b: Filter, fields: Fields): [string, string] | undefined {
  const [first, second] = [parts(a), parts(b)]
  const own = (list: Filter[], other: Filter[]) => list.filter((p) => !other.some((o) => JSON.stringify(o) === JSON.stringify(p)))
  const apart = [own(first, second), own(second, first)] as const
  if (apart[0].length === 0 && apart[1].length === 0) return undefined
  const whole = apart.some((list) => list.length === 0) // one set is a part of the other
  const [x, y] = whole ? [first, second] : apart
  const names: [string, string] = [called(x, fields), called(y, fields)]
  return names[0] === names[1] ? [cut(sentence(a, fields)), cut(sentence(b, fields))] : names
}

function called(list: Filter[], fields: Fields): string {
  return list.length === 0 ? 'all runs' : cut(list.map((p) => short(p, fields)).join(', '))
}

function cut(text: string): string {
  return text.length > longest ? `${text.slice(0, longest - 1).trimEnd()}…` : text
}

/** A part in few words: H100, or Engine version 0.11.0. */
function short(f: Filter, fields: Fields): string {
  if (f.text) return `“${f.text}”`
  const c = asChoice(f)
  if (!c || c.choice.exclude || c.choice.missing || c.choice.min !== undefined || c.choice.max !== undefined) return sentence(f, fields)
  const field = fields.get(c.field)
  const { contains, values } = c.choice
  if (values.length > 3) return sentence(f, fields)
  const text = contains ?? values.map((v) => formatValue(v, field)).join(' or ')
  return plain.includes(c.field) ? text : `${nameOf(field ?? { name: c.field })} ${text}${field?.unit ? ` ${field.unit}` : ''}`
}
