// The picture of two metrics of many runs.
import type { EChartsCoreOption } from 'echarts/core'
import type { Field, Value } from '../api'
import { formatValue, nameOf } from '../format'
import { isUnreal } from '../kind'
import { believed } from '../parts/Badge'
import { axis, between, labelFont, shown, tip, tooltip, type Look } from './look'

export interface Point {
  id: string
  x: number
  y: number
  colour: Value
  label: Value
  verdict: Value
  kind: Value
  name: string
}

export interface Class {
  name: string
  colour: string
  has: (v: Value) => boolean
}

/** The colours of the values of a field: hues for texts, a scale for numbers. */
export function classes(points: Point[], field: Field | undefined, l: Look): Class[] {
  if (!field) return [{ name: 'all', colour: l.accent, has: () => true }]
  const counts = new Map<Value, number>()
  for (const p of points) counts.set(p.colour, (counts.get(p.colour) ?? 0) + 1)
  const numbers = [...counts.keys()].filter((v) => typeof v === 'number').sort((a, b) => a - b)
  if (field.kind !== 'text' && numbers.length > 2) return scale(numbers, field, l)
  const most = l.series.length
  const values = [...counts].sort((a, b) => b[1] - a[1]).map(([v]) => v).filter((v) => v !== null)
  const named = values.slice(0, most).sort((a, b) => String(a).localeCompare(String(b), 'en', { numeric: true }))
  const list: Class[] = named.map((v, i) => ({
    name: formatValue(v, field), colour: l.series[i % most] ?? l.accent, has: (x) => x === v,
  }))
  const rest = [...counts.keys()].filter((v) => !named.includes(v as string | number))
  if (rest.length > 0) {
    list.push({ name: rest.every((v) => v === null) ? 'no value' : 'others', colour: l.quiet, has: (x) => rest.includes(x) })
  }
  return list
}

/** Numbers in at most eight steps of about as many runs. */
function scale(numbers: number[], field: Field, l: Look): Class[] {
  const steps = Math.min(8, numbers.length)
  const at = (i: number) => numbers[Math.min(numbers.length - 1, Math.floor((i * numbers.length) / steps))] as number
  const list: Class[] = []
  for (let i = 0; i < steps; i++) {
    const from = at(i)
    const next = i + 1 < steps ? at(i + 1) : Number.POSITIVE_INFINITY
    const last = i + 1 < steps ? (numbers[numbers.indexOf(next) - 1] as number) : (numbers.at(-1) as number)
    const name = from === last ? formatValue(from, field) : `${formatValue(from, field)} – ${formatValue(last, field)}`
    list.push({
      name, colour: between(l.low, l.high, steps === 1 ? 0 : i / (steps - 1)),
      has: (v) => typeof v === 'number' && v >= from && v < next,
    })
  }
  list.push({ name: 'no value', colour: l.quiet, has: (v) => typeof v !== 'number' })
  return list
}

interface Picture {
  points: Point[]
  groups: Class[]
  frontier: Point[]
  x: Field | undefined
  y: Field | undefined
  colour: Field | undefined
  label: Field | undefined
  log: string
  look: Look
}

const simulated = (p: Point) => isUnreal(p.kind)

/** An option with the points of each of its series, in the order of their data. */
export interface Drawn {
  option: EChartsCoreOption
  series: Point[][]
}

/** Coordinates in one array: ECharts copies every object that it is given. */
function coordinates(points: Point[]): Float64Array {
  const list = new Float64Array(points.length * 2)
  points.forEach((q, i) => {
    list[2 * i] = q.x
    list[2 * i + 1] = q.y
  })
  return list
}

export function scatterOption(p: Picture): Drawn {
  const l = p.look
  const usable = p.points.filter((q) => (!p.log.includes('x') || q.x > 0) && (!p.log.includes('y') || q.y > 0))
  // Triangles tell simulated runs from measured ones, if there are both.
  const mixed = usable.some(simulated) && !usable.every(simulated)
  const mark = (q: Point) => (mixed && simulated(q) ? 'triangle' : 'circle')
  const size = usable.length > 3000 ? 5 : usable.length > 500 ? 7 : 9
  const line = frontierLine(p)
  const points: Point[][] = []
  const series: object[] = []
  for (const g of p.groups) {
    const mine = usable.filter((q) => g.has(q.colour))
    for (const symbol of ['circle', 'triangle']) {
      for (const full of [true, false]) {
        const part = mine.filter((q) => mark(q) === symbol && believed(q.verdict) === full)
        if (part.length === 0) continue
        points.push(part)
        series.push({
          type: 'scatter', name: g.name, symbolSize: size, animation: false, progressive: 0, symbol, cursor: 'pointer',
          large: usable.length > 1500, largeThreshold: 1, // one path for all points of a series
          itemStyle: full
            ? { color: g.colour, opacity: 0.8, borderColor: l.ground, borderWidth: 0.5 }
            : { color: l.ground, borderColor: g.colour, borderWidth: 1.5, opacity: 0.9 },
          emphasis: { scale: 1.6 }, data: coordinates(part),
        })
      }
    }
  }
  points.push(line.points)
  const option = {
    animation: false,
    grid: { left: 64, right: 24, top: 18, bottom: 48 },
    xAxis: { ...axis(l, p.x, p.log.includes('x')), ...ends([...usable, ...line.points].map((q) => q.x), p.log.includes('x')), nameGap: 30 },
    yAxis: { ...axis(l, p.y, p.log.includes('y')), ...ends([...usable, ...line.points].map((q) => q.y), p.log.includes('y')), nameGap: 50 },
    dataZoom: [{ type: 'inside', xAxisIndex: 0, filterMode: 'none' }, { type: 'inside', yAxisIndex: 0, filterMode: 'none' }],
    tooltip: {
      ...tooltip(l), trigger: 'item',
      formatter: (e: { seriesIndex: number; dataIndex: number }) => {
        const point = points[e.seriesIndex]?.[e.dataIndex]
        return point ? describe(point, p) : ''
      },
    },
    series: [...series, line.series],
  }
  return { option, series: points }
}

/** The ends of a logarithmic axis: 1, 2 or 5 times a power of ten, since whole decades leave much of it empty. */
function ends(values: number[], log: boolean): { min?: number; max?: number } {
  if (!log || values.length === 0) return {}
  const low = values.reduce((a, b) => Math.min(a, b))
  const high = values.reduce((a, b) => Math.max(a, b))
  const decade = (x: number) => 10 ** Math.floor(Math.log10(x))
  const steps = (x: number) => [1, 2, 5, 10].map((n) => n * decade(x))
  return { min: steps(low).filter((s) => s <= low).at(-1), max: steps(high).find((s) => s >= high) }
}

function frontierLine(p: Picture) {
  const l = p.look
  const usable = p.frontier.filter((q) => (!p.log.includes('x') || q.x > 0) && (!p.log.includes('y') || q.y > 0))
  const series = {
    type: 'line', name: 'frontier', z: 5, animation: false, symbol: 'circle', symbolSize: 9,
    lineStyle: { color: l.text, width: 1.2, type: 'dashed' },
    itemStyle: { color: 'transparent', borderColor: l.text, borderWidth: 1.5 },
    labelLayout: { hideOverlap: true },
    label: {
      show: p.label !== undefined, position: 'top', distance: 6, ...labelFont, color: l.text, textBorderColor: l.ground,
      textBorderWidth: 3, formatter: (e: { dataIndex: number }) => formatValue(usable[e.dataIndex]?.label, p.label),
    },
    data: usable.map((q) => [q.x, q.y]),
  }
  return { series, points: usable }
}

function describe(q: Point, p: Picture): HTMLElement {
  const rows: [string, string][] = []
  for (const [f, v] of [[p.x, q.x], [p.y, q.y], [p.colour, q.colour], [p.label, q.label]] as const) {
    if (f && f.name !== 'case' && !rows.some(([name]) => name === nameOf(f))) rows.push([nameOf(f), shown(v, f)])
  }
  rows.push(['Verdict', `${q.verdict ?? 'not judged'}${q.kind && q.kind !== 'measured' ? `, ${q.kind}` : ''}`])
  return tip(q.name, rows)
}
