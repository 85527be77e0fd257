import { useEffect, useRef, useState } from 'react'
import type { Field, Histogram } from '../api'
import { nothing, type Choice } from '../filter'
import { formatDate, formatExact, formatValue, nameOf } from '../format'

interface Props {
  field: Field
  histogram: Histogram
  choice: Choice
  set: (field: string, c: Choice, replace?: boolean) => void
}

const width = 240
const height = 44

/** A histogram in which a range is chosen by dragging, and two inputs for exact limits. */
export function RangeFacet({ field, histogram: h, choice, set }: Props) {
  const [drag, setDrag] = useState<{ from: number; to: number }>()
  const svg = useRef<SVGSVGElement>(null)
  const most = Math.max(1, ...h.runs)
  const step = width / h.runs.length
  const low = choice.min ?? h.min
  const high = choice.max ?? h.max
  const place = (x: number) => (h.max > h.min ? ((x - h.min) / (h.max - h.min)) * width : 0)
  const [from, to] = drag ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] : [place(low), place(high)]

  const at = (e: React.PointerEvent) => {
    const box = svg.current?.getBoundingClientRect()
    return box ? Math.min(width, Math.max(0, ((e.clientX - box.left) / box.width) * width)) : 0
  }
  const done = () => {
    if (!drag) return
    setDrag(undefined)
    // A click chooses the bar under it; a drag, all bars that it touches.
    const first = Math.floor(from / step)
    const last = Math.max(first, Math.ceil(to / step) - 1)
    const edge = (bin: number) => tidy(h.min + ((h.max - h.min) * bin) / h.runs.length, (h.max - h.min) / h.runs.length)
    set(field.name, {
      ...nothing,
      min: first <= 0 ? undefined : edge(first),
      max: last >= h.runs.length - 1 ? undefined : edge(last + 1),
    })
  }
  const limit = (key: 'min' | 'max') => (x: number | undefined) => set(field.name, { ...nothing, min: choice.min, max: choice.max, [key]: x })
  return (
    <div className="range">
      <svg
        ref={svg} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img"
        aria-label={`Histogram of ${nameOf(field)} from ${formatValue(h.min, field)} to ${formatValue(h.max, field)}`}
        onPointerDown={(e) => {
          e.currentTarget.setPointerCapture(e.pointerId)
          setDrag({ from: at(e), to: at(e) })
        }}
        onPointerMove={(e) => drag && setDrag({ ...drag, to: at(e) })}
        onPointerUp={done} onPointerCancel={() => setDrag(undefined)}
      >
        <rect className="range-pick" x={from} width={Math.max(0, to - from)} height={height} />
        {h.runs.map((n, i) => {
          const x = i * step
          const inside = x + step > from + 0.01 && x < to - 0.01
          const tall = n === 0 ? 0 : Math.max(2, (n / most) * (height - 2))
          return <rect key={i} className={inside ? 'bin in' : 'bin'} x={x + 0.5} width={step - 1} y={height - tall} height={tall} />
        })}
      </svg>
      <div className="range-limits">
        <Bound field={field} label={`Smallest ${nameOf(field)}`} value={choice.min} other={h.min} set={limit('min')} />
        <span className="quiet">to</span>
        <Bound field={field} label={`Largest ${nameOf(field)}`} value={choice.max} other={h.max} set={limit('max')} />
      </div>
    </div>
  )
}

/** Rounds an edge so that it stays within a tenth of a bin. */
function tidy(x: number, bin: number): number {
  const digits = Math.max(0, 1 - Math.floor(Math.log10(bin)))
  return digits > 12 ? x : Number(x.toFixed(digits))
}

interface BoundProps {
  field: Field
  label: string
  value: number | undefined
  other: number // shown while nothing is asked
  set: (x: number | undefined) => void
}

function Bound({ field, label, value, other, set }: BoundProps) {
  const time = field.kind === 'time'
  const written = value === undefined ? '' : time ? formatDate(value) : formatExact(value).replaceAll(',', '')
  const [text, setText] = useState(written)
  useEffect(() => setText(written), [written])
  const commit = () => {
    if (text === written) return
    const x = time ? Date.parse(`${text}T00:00:00Z`) : Number(text)
    set(text === '' || Number.isNaN(x) ? undefined : x)
  }
  return (
    <input
      className="bound" type={time ? 'date' : 'text'} inputMode={time ? undefined : 'decimal'} aria-label={label} value={text}
      placeholder={formatValue(other, field)} onChange={(e) => setText(e.currentTarget.value)} onBlur={commit}
      onKeyDown={(e) => e.key === 'Enter' && commit()}
    />
  )
}
