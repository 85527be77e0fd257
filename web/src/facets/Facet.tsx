import type { FacetAnswer, Field } from '../api'
import { nothing, type Choice } from '../filter'
import { formatValue, nameOf } from '../format'
import { RangeFacet } from './RangeFacet'
import { ValuesFacet } from './ValuesFacet'

interface Props {
  field: Field
  open: boolean
  answer: FacetAnswer | undefined
  choice: Choice
  set: (field: string, c: Choice, replace?: boolean) => void
  toggle: (field: string) => void
}

/** One field: its head, and its values while it is open. */
export function Facet({ field, open, answer, choice, set, toggle }: Props) {
  const chosen = choice !== nothing
  return (
    <div className={chosen ? 'facet chosen' : 'facet'}>
      <div className="facet-head">
        <button
          type="button" className="facet-name" aria-expanded={open} title={field.help || field.name}
          onClick={() => toggle(field.name)}
        >
          <span className="turn" aria-hidden="true" />
          <span className="clip">{nameOf(field)}</span>
          {field.unit && <span className="quiet">{field.unit}</span>}
        </button>
        {chosen
          ? <button type="button" className="plain" aria-label={`Clear ${nameOf(field)}`} onClick={() => set(field.name, nothing)}>clear</button>
          : !open && <span className="quiet facet-hint">{hint(field)}</span>}
      </div>
      {open && (
        <div className="facet-body">
          {!answer && <p className="quiet">Loading…</p>}
          {answer?.histogram && (
            <RangeFacet field={field} histogram={answer.histogram} choice={choice} set={set} />
          )}
          {answer && (!answer.histogram || choice.values.length > 0) && (
            <ValuesFacet field={field} answer={answer} choice={choice} set={set} />
          )}
        </div>
      )}
    </div>
  )
}

/** The server counts no further. */
const mostDistinct = 1000

/** What a closed facet says about itself: its range, or how many values it has. */
function hint(f: Field): string {
  if (f.name.startsWith('check.')) return f.runs === 1 ? '1 run' : `${f.runs.toLocaleString('en-US')} runs`
  if (f.distinct === 1) return f.kind === 'number' && f.min != null ? formatValue(f.min, f) : 'one value'
  if (f.kind !== 'text' && f.distinct > 24 && f.min != null && f.max != null && f.kind === 'number') {
    return `${formatValue(f.min, f)} – ${formatValue(f.max, f)}`
  }
  const many = f.distinct >= mostDistinct ? 'or more ' : ''
  return f.kind === 'time' ? '' : `${f.distinct.toLocaleString('en-US')} ${many}values`
}
