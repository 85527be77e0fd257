import { useId, useState } from 'react'
import type { Count, FacetAnswer, Field, Value } from '../api'
import { nothing, type Choice } from '../filter'
import { formatValue, nameOf } from '../format'

interface Props {
  field: Field
  answer: FacetAnswer
  choice: Choice
  set: (field: string, c: Choice) => void
}

const few = 6

/** Values with their counts. A bar behind each shows its share. */
export function ValuesFacet({ field, answer, choice, set }: Props) {
  const [all, setAll] = useState(false)
  const [search, setSearch] = useState('')
  const id = useId()
  const counts = ordered(field, answer, choice)
  const wanted = search.trim().toLowerCase()
  const found = wanted ? counts.filter((c) => formatValue(c.value, field).toLowerCase().includes(wanted)) : counts
  const list = all || wanted ? found.slice(0, 300) : shortened(found, choice)
  const most = Math.max(1, ...counts.map((c) => c.runs))
  const missing = answer.missing ?? 0

  const pick = (v: Value) => {
    const values = choice.values.includes(v) ? choice.values.filter((x) => x !== v) : [...choice.values, v]
    set(field.name, { ...nothing, values, missing: choice.missing, exclude: choice.exclude })
  }
  return (
    <div className="values">
      {(counts.length > 10 || choice.contains) && (
        <form
          className="facet-search" onSubmit={(e) => {
            e.preventDefault()
            set(field.name, { ...nothing, contains: search.trim() || undefined })
          }}
        >
          <input
            type="search" value={search} placeholder={`Find in ${counts.length} values`} aria-label={`Find a value of ${nameOf(field)}`}
            onChange={(e) => setSearch(e.currentTarget.value)}
          />
          {wanted && field.kind === 'text' && <button type="submit" className="plain">all that contain it</button>}
        </form>
      )}
      {choice.contains !== undefined && <p className="quiet">contains “{choice.contains}”</p>}
      <ul aria-label={nameOf(field)}>
        {list.map((c) => {
          const text = formatValue(c.value, field)
          const on = choice.values.includes(c.value)
          return (
            <li key={`${typeof c.value}${c.value}`} className={c.runs === 0 ? 'none' : undefined}>
              <Share part={c.runs / most} />
              <label title={text}>
                <input type="checkbox" checked={on} onChange={() => pick(c.value)} />
                <span className={on && choice.exclude ? 'clip struck' : 'clip'}>{text}</span>
                <span className="number">{c.runs.toLocaleString('en-US')}</span>
              </label>
            </li>
          )
        })}
        {(missing > 0 || choice.missing) && !wanted && (
          <li className={missing === 0 ? 'none' : undefined}>
            <Share part={missing / Math.max(most, missing)} />
            <label>
              <input
                type="checkbox" checked={choice.missing}
                onChange={() => set(field.name, { ...nothing, values: choice.values, exclude: choice.exclude, missing: !choice.missing })}
              />
              <span className="clip quiet">no value</span>
              <span className="number">{missing.toLocaleString('en-US')}</span>
            </label>
          </li>
        )}
      </ul>
      <div className="facet-foot">
        {found.length > list.length && !all && (
          <button type="button" className="plain" onClick={() => setAll(true)}>{found.length - list.length} more values</button>
        )}
        {all && counts.length > few && <button type="button" className="plain" onClick={() => setAll(false)}>Fewer values</button>}
        {(choice.values.length > 0 || choice.missing) && (
          <label className="except" htmlFor={id}>
            <input
              id={id} type="checkbox" checked={choice.exclude}
              onChange={() => set(field.name, { ...choice, exclude: !choice.exclude })}
            />
            all but these
          </label>
        )}
      </div>
    </div>
  )
}

function Share({ part }: { part: number }) {
  return (
    <svg className="share" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
      <rect width={100 * Math.min(1, part)} height="1" />
    </svg>
  )
}

/** Numbers by size, versions from the newest, other texts by frequency; chosen values are listed even if no run is left. */
function ordered(field: Field, answer: FacetAnswer, choice: Choice): Count[] {
  const list = [...(answer.values ?? [])]
  for (const v of choice.values) {
    if (!list.some((c) => c.value === v)) list.push({ value: v, runs: 0 })
  }
  if (field.kind !== 'text') list.sort((a, b) => rank(a.value) - rank(b.value))
  else if (list.every((c) => isVersion(c.value))) list.sort((a, b) => String(b.value).localeCompare(String(a.value), 'en', { numeric: true }))
  return list
}

const isVersion = (v: Value) => /^v?\d+(\.\d+)+/.test(String(v))

const rank = (v: Value) => (typeof v === 'number' ? v : Number.MAX_VALUE)

/** The first values and all chosen ones. */
function shortened(list: Count[], choice: Choice): Count[] {
  if (list.length <= few + 2) return list
  return list.filter((c, i) => i < few || choice.values.includes(c.value))
}
