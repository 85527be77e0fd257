// The filter as the page builds it: parts that all must hold. Facets own the parts that ask
// about one field alone; the search box owns the text; what is left are groups.
import type { Condition, Field, Filter, Value } from './api'
import { formatValue, nameOf } from './format'

/** Parts are the filters that all must be met. */
export function parts(f: Filter | undefined): Filter[] {
  if (!f || isEmpty(f)) return []
  return f.and ? f.and.flatMap(parts) : [f]
}

export function isEmpty(f: Filter): boolean {
  return !f.and && !f.or && !f.not && !f.text && !f.field
}

export function join(list: Filter[]): Filter | undefined {
  if (list.length === 0) return undefined
  return list.length === 1 ? list[0] : { and: list }
}

/** What is chosen in the facet of one field. */
export interface Choice {
  values: Value[]
  missing: boolean // runs without a value
  exclude: boolean // values and missing are those that are not wanted
  min?: number
  max?: number
  contains?: string
}

export const nothing: Choice = { values: [], missing: false, exclude: false }

/** Reads a part as the choice of a facet; undefined if a facet cannot show it. */
export function asChoice(f: Filter): { field: string; choice: Choice } | undefined {
  if (f.not) {
    const inner = asChoice(f.not)
    if (!inner || inner.choice.exclude || inner.choice.min !== undefined || inner.choice.max !== undefined) return undefined
    if (inner.choice.contains !== undefined) return undefined
    return { field: inner.field, choice: { ...inner.choice, exclude: true } }
  }
  if (f.or?.length === 2) {
    const [a, b] = f.or
    if (a?.field && a.in && only(a, 'in') && b && b.field === a.field && b.has === false && only(b, 'has')) {
      return { field: a.field, choice: { ...nothing, values: a.in, missing: true } }
    }
    return undefined
  }
  if (!f.field || f.above !== undefined || f.below !== undefined || f.has === true) return undefined
  const range = f.min !== undefined || f.max !== undefined
  const asked = [f.in, f.contains, f.has, range || undefined].filter((x) => x !== undefined)
  if (asked.length !== 1 || typeof f.min === 'string' || typeof f.max === 'string') return undefined
  return {
    field: f.field,
    choice: { ...nothing, values: f.in ?? [], missing: f.has === false, min: f.min, max: f.max, contains: f.contains },
  }
}

function only(f: Condition, key: keyof Condition): boolean {
  return Object.keys(f).every((k) => k === 'field' || k === key)
}

/** The part that a choice comes to; undefined if nothing is chosen. */
export function ofChoice(field: string, c: Choice): Filter | undefined {
  let f: Filter | undefined
  if (c.values.length > 0 && c.missing) f = { or: [{ field, in: c.values }, { field, has: false }] }
  else if (c.values.length > 0) f = { field, in: c.values }
  else if (c.missing) f = { field, has: false }
  else if (c.contains) return { field, contains: c.contains }
  else if (c.min !== undefined || c.max !== undefined) return { field, min: c.min, max: c.max }
  return f && c.exclude ? { not: f } : f
}

export function choiceOf(list: Filter[], field: string): Choice {
  for (const p of list) {
    const c = asChoice(p)
    if (c?.field === field) return c.choice
  }
  return nothing
}

/** The parts with another choice of one facet, at its old place. */
export function choose(list: Filter[], field: string, c: Choice): Filter[] {
  const part = ofChoice(field, c)
  const at = list.findIndex((p) => asChoice(p)?.field === field)
  if (at < 0) return part ? [...list, part] : list
  return list.flatMap((p, i) => (i !== at ? [p] : part ? [part] : []))
}

export function searchText(list: Filter[]): string {
  return list.find((p) => p.text)?.text ?? ''
}

export function withText(list: Filter[], text: string): Filter[] {
  const rest = list.filter((p) => !p.text)
  return text ? [...rest, { text }] : rest
}

/** Whether a filter asks for runs that failed: by their status or by the cause of the failure. */
export function asksForFailed(f: Filter | undefined): boolean {
  return parts(f).some((p) => {
    if (p.field === 'status') return p.in !== undefined && p.in.length > 0 && !p.in.includes('completed')
    return (p.field === 'cause' || p.field === 'cause_line') && p.has !== false
  })
}

type Fields = Map<string, Field>

/** A filter in words. */
export function sentence(f: Filter, fields: Fields, nested = false): string {
  const group = (list: Filter[], word: string) => {
    const text = list.map((x) => sentence(x, fields, list.length > 1)).join(` ${word} `)
    return nested && list.length > 1 ? `(${text})` : text
  }
  if (isEmpty(f)) return 'all runs'
  if (f.and) return f.and.length ? group(f.and, 'and') : 'all runs'
  if (f.or) {
    const c = asChoice(f)
    if (c) return `${condition({ field: c.field, in: c.choice.values }, fields)} or none`
    return f.or.length ? group(f.or, 'or') : 'no runs'
  }
  if (f.not) return negated(f.not, fields)
  if (f.text) return `any text contains “${f.text}”`
  return condition(f, fields)
}

function negated(f: Filter, fields: Fields): string {
  if (f.field && f.in && only(f, 'in')) return `${title(f.field, fields)} is not ${values(f, fields)}`
  if (f.field && f.contains && only(f, 'contains')) return `${title(f.field, fields)} does not contain “${f.contains}”`
  if (f.field && f.has === false) return `${title(f.field, fields)} is known`
  return `not (${sentence(f, fields)})`
}

function title(name: string, fields: Fields): string {
  return nameOf(fields.get(name) ?? { name })
}

function values(f: Condition, fields: Fields): string {
  const field = fields.get(f.field ?? '')
  const list = (f.in ?? []).map((v) => formatValue(v, field))
  if (list.length > 4) return `${list.slice(0, 3).join(', ')} or ${list.length - 3} more`
  return list.length > 1 ? `${list.slice(0, -1).join(', ')} or ${list.at(-1)}` : (list[0] ?? 'nothing')
}

function condition(f: Condition, fields: Fields): string {
  const field = fields.get(f.field ?? '')
  const name = title(f.field ?? '', fields)
  const unit = field?.unit ? ` ${field.unit}` : ''
  const number = (x: number | string | undefined) => formatValue(x ?? null, field, true)
  const said: string[] = []
  if (f.in) said.push(`is ${values(f, fields)}`)
  if (f.contains) said.push(`contains “${f.contains}”`)
  if (f.min !== undefined && f.max !== undefined) said.push(`is ${number(f.min)} to ${number(f.max)}${unit}`)
  else if (f.min !== undefined) said.push(`is at least ${number(f.min)}${unit}`)
  else if (f.max !== undefined) said.push(`is at most ${number(f.max)}${unit}`)
  if (f.above !== undefined) said.push(`is above ${number(f.above)}${unit}`)
  if (f.below !== undefined) said.push(`is below ${number(f.below)}${unit}`)
  if (f.has !== undefined) said.push(f.has ? 'is known' : 'is not known')
  return `${name} ${said.join(' and ')}`
}
