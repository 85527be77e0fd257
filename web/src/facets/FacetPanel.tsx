import { TextInput } from '@mantine/core'
import { memo, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Answer, FacetAnswer, Field, Group } from '../api'
import { openFacets, useKnown } from '../data'
import { useOffer } from '../offer'
import { asChoice, choose, join, nothing, parts, type Choice } from '../filter'
import { nameOf } from '../format'
import { parse, search as address, update, type State } from '../state'
import { Facet } from './Facet'

const groups: { group: Group; name: string }[] = [
  { group: 'run', name: 'Run' }, { group: 'validity', name: 'Validity' }, { group: 'placement', name: 'Placement' },
  { group: 'hardware', name: 'Hardware' }, { group: 'software', name: 'Software' }, { group: 'engine', name: 'Engine' },
  { group: 'load', name: 'Load' }, { group: 'setting', name: 'Settings' }, { group: 'metric', name: 'Metrics' },
]

interface Props {
  state: State
  answer: Answer | undefined
  failed: boolean // there will be no answer
  open: boolean
  close: () => void
}

/** The values of every field, to choose from. */
export function FacetPanel({ state, answer, failed, open, close }: Props) {
  const known = useKnown()
  const { licenses } = useOffer()
  const [search, setSearch] = useState('')
  const [more, setMore] = useState<ReadonlySet<Group>>(new Set())
  const panel = useRef<HTMLElement>(null)
  const opened = useMemo(() => openFacets(state, known), [state, known])
  const choices = useMemo(() => {
    const map = new Map<string, Choice>()
    for (const p of parts(state.filter)) {
      const c = asChoice(p)
      if (c) map.set(c.field, c.choice)
    }
    return map
  }, [state.filter])
  const answers = useMemo(() => new Map((answer?.facets ?? []).map((f) => [f.field, f])), [answer])

  const set = useCallback((field: string, c: Choice, replace = false) => {
    const list = parts(parse(address()).filter)
    update({ filter: join(choose(list, field, c)) }, replace)
  }, [])
  const toggle = useCallback((field: string) => {
    const now = openFacets(parse(address()), known)
    update({ facets: now.includes(field) ? now.filter((n) => n !== field) : [...now, field] }, true)
  }, [known])

  useEffect(() => {
    if (!open) return undefined
    panel.current?.querySelector<HTMLElement>('input')?.focus()
    const key = (e: KeyboardEvent) => e.key === 'Escape' && close()
    window.addEventListener('keydown', key)
    return () => window.removeEventListener('keydown', key)
  }, [open, close])

  const pinned = useMemo(() => new Set(known.options.defaults.facets), [known])
  const shown = (f: Field) => pinned.has(f.name) || choices.has(f.name) || opened.includes(f.name)
  const wanted = search.trim().toLowerCase()
  const found = (f: Field) => `${nameOf(f)} ${f.name} ${f.help ?? ''}`.toLowerCase().includes(wanted)
  return (
    <>
      {open && <button type="button" className="veil" aria-label="Close the filters" onClick={close} />}
      <aside className={open ? 'facets open' : 'facets'} aria-label="Filters" ref={panel}>
        <div className="facets-head">
          <TextInput
            size="xs" placeholder="Find a field" aria-label="Find a field" value={search}
            onChange={(e) => setSearch(e.currentTarget.value)} type="search"
          />
          <button type="button" className="plain narrow" onClick={close}>Done</button>
        </div>
        {groups.map(({ group, name }) => {
          const all = known.options.fields.filter((f) => f.group === group && (f.runs > 0 || choices.has(f.name)))
          const list = wanted ? all.filter(found) : more.has(group) ? all : all.filter(shown)
          const rest = wanted ? 0 : all.length - all.filter(shown).length
          if (list.length === 0 && rest === 0) return null
          return (
            <section key={group} className="facet-group" aria-label={name}>
              <h2>{name}</h2>
              {list.map((f) => (
                <MemoFacet
                  key={f.name} field={f} open={opened.includes(f.name) && !failed} answer={answers.get(f.name)}
                  choice={choices.get(f.name) ?? nothing} set={set} toggle={toggle}
                />
              ))}
              {rest > 0 && (
                <button
                  type="button" className="plain more" aria-expanded={more.has(group)}
                  onClick={() => setMore(flip(more, group))}
                >
                  {more.has(group) ? 'Fewer fields' : `${rest} more ${rest === 1 ? 'field' : 'fields'}`}
                </button>
              )}
            </section>
          )
        })}
        {wanted && !known.options.fields.some((f) => f.runs > 0 && found(f)) && (
          <p className="quiet pad">No field of this store is called “{search}”.</p>
        )}
        {licenses && <p className="pad small"><a href={licenses}>Licenses of the libraries in this page</a></p>}
      </aside>
    </>
  )
}

function flip<T>(set: ReadonlySet<T>, x: T): ReadonlySet<T> {
  const next = new Set(set)
  if (!next.delete(x)) next.add(x)
  return next
}

interface MemoProps {
  field: Field
  open: boolean
  answer: FacetAnswer | undefined
  choice: Choice
  set: (field: string, c: Choice, replace?: boolean) => void
  toggle: (field: string) => void
}

// A facet is drawn again only if its own values or choice changed.
const MemoFacet = memo(Facet, (a: MemoProps, b: MemoProps) =>
  a.field === b.field && a.open === b.open && a.answer === b.answer && a.set === b.set && a.toggle === b.toggle &&
  (a.choice === b.choice || JSON.stringify(a.choice) === JSON.stringify(b.choice)))
