import { Button, Popover, Select, TextInput } from '@mantine/core'
import { useId, useState } from 'react'
import type { Condition, Field, Filter } from '../api'
import { useKnown } from '../data'
import { join, parts, sentence } from '../filter'
import { nameOf } from '../format'
import { FieldSelect } from '../parts/FieldSelect'
import { update } from '../state'

// A group while it is edited: every member is a condition or a group.
interface Group {
  any: boolean // or, not and
  not: boolean
  members: (Group | Line)[]
}

interface Line {
  field: string
  op: Op
  text: string
}

type Op = 'is' | 'is not' | 'contains' | 'at least' | 'at most' | 'known' | 'not known'

const isGroup = (m: Group | Line): m is Group => 'members' in m
const any = () => true

interface Props {
  at: number // the part of the filter that is edited; -1: a new one
  filter: Filter | undefined // the whole
  children: (open: () => void) => React.ReactNode
}

/** Builds a group of conditions with and, or and not. */
export function FilterBuilder({ at, filter, children }: Props) {
  const { fields } = useKnown()
  const [open, setOpen] = useState(false)
  const [group, setGroup] = useState<Group>(empty)
  const list = parts(filter)
  const built = ofGroup(group, fields)
  const start = () => {
    setGroup(at >= 0 && list[at] ? asGroup(list[at]) : empty())
    setOpen(true)
  }
  const apply = () => {
    const next = at >= 0 ? list.flatMap((p, i) => (i === at ? (built ? [built] : []) : [p])) : built ? [...list, built] : list
    update({ filter: join(next) })
    setOpen(false)
  }
  return (
    <Popover opened={open} onChange={setOpen} position="bottom-start" width="min(560px, 94vw)" shadow="md" trapFocus returnFocus closeOnClickOutside={false}>
      <Popover.Target>{children(start) as React.ReactElement}</Popover.Target>
      <Popover.Dropdown className="builder">
        <h2>Conditions</h2>
        <GroupEditor g={group} set={setGroup} depth={0} />
        <p className="quiet reads">{built ? sentence(built, fields) : 'No condition is complete.'}</p>
        <div className="row-of">
          <Button size="xs" disabled={!built && at < 0} onClick={apply}>Apply</Button>
          <Button size="xs" variant="subtle" onClick={() => setOpen(false)}>Cancel</Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}

function empty(): Group {
  return { any: true, not: false, members: [{ field: '', op: 'is', text: '' }, { field: '', op: 'is', text: '' }] }
}

const ways = [['all', 'all of (and)'], ['any', 'any of (or)'], ['none', 'none of (not)']] as const

function GroupEditor({ g, set, depth, remove }: { g: Group; set: (g: Group) => void; depth: number; remove?: () => void }) {
  const name = useId()
  const change = (i: number, m: Group | Line) => set({ ...g, members: g.members.map((x, j) => (i === j ? m : x)) })
  const drop = (i: number) => set({ ...g, members: g.members.filter((_, j) => j !== i) })
  return (
    <div className={depth > 0 ? 'group nested' : 'group'} role="group" aria-label={`${g.not ? 'None' : g.any ? 'Any' : 'All'} of these`}>
      <div className="row-of">
        <div className="radios" role="radiogroup" aria-label="How the conditions combine">
          {ways.map(([way, text]) => (
            <label key={way}>
              <input
                type="radio" name={name} checked={way === (g.not ? 'none' : g.any ? 'any' : 'all')}
                onChange={() => set({ ...g, not: way === 'none', any: way !== 'all' })}
              />
              {text}
            </label>
          ))}
        </div>
        {remove && <button type="button" className="plain" onClick={remove}>remove group</button>}
      </div>
      {g.members.map((m, i) => (isGroup(m)
        ? <GroupEditor key={i} g={m} depth={depth + 1} set={(x) => change(i, x)} remove={() => drop(i)} />
        : <LineEditor key={i} line={m} set={(x) => change(i, x)} remove={() => drop(i)} />))}
      <div className="row-of">
        <Button size="compact-xs" variant="default" onClick={() => set({ ...g, members: [...g.members, { field: '', op: 'is', text: '' }] })}>Add condition</Button>
        {depth < 4 && <Button size="compact-xs" variant="default" onClick={() => set({ ...g, members: [...g.members, { ...empty(), any: false }] })}>Add group</Button>}
      </div>
    </div>
  )
}

function LineEditor({ line, set, remove }: { line: Line; set: (l: Line) => void; remove: () => void }) {
  const { fields } = useKnown()
  const f = fields.get(line.field)
  const ops: Op[] = f && f.kind !== 'text' ? ['is', 'is not', 'at least', 'at most', 'known', 'not known'] : ['is', 'is not', 'contains', 'known', 'not known']
  const valued = line.op !== 'known' && line.op !== 'not known'
  return (
    <div className="line">
      <FieldSelect label="Field" hidden value={line.field || undefined} accept={any} w={180} placeholder="field" choose={(n) => set({ ...line, field: n ?? '' })} />
      <Select size="xs" w={96} aria-label="Condition" data={ops} value={line.op} allowDeselect={false} onChange={(op) => op && set({ ...line, op: op as Op })} />
      {valued && (
        <TextInput
          size="xs" className="grow" aria-label={`Value of ${f ? nameOf(f) : 'the field'}`} value={line.text}
          placeholder={f?.kind === 'time' ? '2026-11-26' : line.op === 'is' || line.op === 'is not' ? 'value, or several with commas' : 'value'}
          onChange={(e) => set({ ...line, text: e.currentTarget.value })}
        />
      )}
      <button type="button" className="plain" aria-label="Remove the condition" onClick={remove}>×</button>
    </div>
  )
}

/** A group as a filter; undefined if no condition in it is complete. */
function ofGroup(g: Group, fields: Map<string, Field>): Filter | undefined {
  const list = g.members.flatMap((m) => (isGroup(m) ? ofGroup(m, fields) : ofLine(m, fields)) ?? [])
  if (list.length === 0) return undefined
  const joined: Filter = list.length === 1 ? (list[0] as Filter) : g.any ? { or: list } : { and: list }
  return g.not ? { not: joined } : joined
}

function ofLine(l: Line, fields: Map<string, Field>): Filter | undefined {
  const f = fields.get(l.field)
  const field = l.field
  if (!field) return undefined
  if (l.op === 'known' || l.op === 'not known') return { field, has: l.op === 'known' }
  const text = l.text.trim()
  if (!text) return undefined
  const read = (s: string) => (f?.kind === 'number' && Number.isFinite(Number(s)) ? Number(s) : s)
  if (l.op === 'contains') return { field, contains: text }
  if (l.op === 'at least' || l.op === 'at most') {
    const x = read(text)
    if (f?.kind === 'number' && typeof x !== 'number') return undefined
    return l.op === 'at least' ? { field, min: x } : { field, max: x }
  }
  const values = text.split(',').map((s) => read(s.trim())).filter((s) => s !== '')
  const is: Filter = { field, in: values }
  return l.op === 'is' ? is : { not: is }
}

/** A filter as a group that can be edited. */
function asGroup(f: Filter): Group {
  if (f.not && !(f.not.field && f.not.in)) return { ...asGroup(f.not), not: true }
  const list = f.or ?? f.and
  if (list) return { any: f.or !== undefined, not: false, members: list.flatMap(members) }
  return { any: false, not: false, members: members(f) }
}

function members(f: Filter): (Group | Line)[] {
  if (f.and || f.or) return [asGroup(f)]
  if (f.not) return f.not.field && f.not.in ? lines(f.not).map((l) => ({ ...l, op: 'is not' as Op })) : [asGroup(f)]
  return lines(f)
}

function lines(f: Condition): Line[] {
  const field = f.field ?? ''
  const list: Line[] = []
  const add = (op: Op, text: unknown) => list.push({ field, op, text: String(text) })
  if (f.in) add('is', f.in.join(', '))
  if (f.contains) add('contains', f.contains)
  if (f.min !== undefined) add('at least', f.min)
  if (f.max !== undefined) add('at most', f.max)
  if (f.has !== undefined) add(f.has ? 'known' : 'not known', '')
  return list
}
