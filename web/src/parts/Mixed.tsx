import type { Field, Setting } from '../api'
import { useKnown } from '../data'
import { choose, join, nothing, parts } from '../filter'
import { nameOf } from '../format'
import { update, type State } from '../state'

/** The field that a setting of a report is. Reports shorten keys and spell some of them. */
function fieldOf(key: string, fields: Map<string, Field>): Field | undefined {
  const spelled: Record<string, string> = { 'engine version': 'engine_version', GPU: 'gpu' }
  return [spelled[key] ?? key, `bench_cmd_args.${key}`, `cmd_args.${key}`].map((n) => fields.get(n)).find((f) => f !== undefined)
}

interface Props {
  lists: (Setting[] | null)[]
  state: State
  /** What differs so, such as "configurations". */
  what: string
}

export const isModel = (f: Field) => f.name === 'cmd_args.model'

/** Says in which fields things differ that are ranked together. */
export function Different({ what, list }: { what: string; list: [Field, number][] }) {
  return (
    <>
      These {what} ran different work, so their numbers cannot be ranked:{' '}
      {list.map(([f, n]) => (isModel(f) ? `${n} models` : `${n} values of ${nameOf(f)}`)).join(', ')}.
    </>
  )
}

/** Warns that configurations served other models or loads, so that their numbers cannot be ranked, and offers to keep one. */
export function Mixed({ lists, state, what }: Props) {
  const { fields } = useKnown()
  const values = new Map<Field, Set<string>>()
  for (const s of lists.flatMap((l) => l ?? [])) {
    const f = fieldOf(s.key, fields)
    if (f && (f.group === 'load' || isModel(f))) values.set(f, (values.get(f) ?? new Set()).add(s.value))
  }
  const mixed = [...values].filter(([, set]) => set.size > 1).sort(([a], [b]) => Number(isModel(b)) - Number(isModel(a)))
  if (mixed.length === 0) return null
  const first = lists[0] ?? []
  const keep = () => {
    const list = mixed.reduce((f, [field]) => {
      const value = first.find((s) => fieldOf(s.key, fields) === field)?.value
      if (value === undefined) return f
      const typed = field.kind === 'number' && value !== '' && Number.isFinite(Number(value)) ? Number(value) : value
      return choose(f, field.name, value === '' ? { ...nothing, missing: true } : { ...nothing, values: [typed] })
    }, parts(state.filter))
    update({ filter: join(list) })
  }
  return (
    <p className="warn">
      <Different what={what} list={mixed.map(([f, set]) => [f, set.size])} />{' '}
      <button type="button" className="plain inline" onClick={keep}>Keep only those like the first</button>
    </p>
  )
}
