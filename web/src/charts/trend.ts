// The picture of one metric of a series over time, with its levels and changes.
import type { EChartsCoreOption } from 'echarts/core'
import type { Field, MetricTrend } from '../api'
import { formatPercent, formatTime } from '../format'
import { axis, labelFont, shown, timeAxis, tip, tooltip, type Look } from './look'

export interface TrendPoint {
  id?: string
  time: number
  value: number
}

/** A change that matters, or may. */
export const matters = (verdict: string) => verdict === 'regressed' || verdict === 'improved' || verdict === 'watch'

export function trendOption(m: MetricTrend, points: TrendPoint[], f: Field, l: Look): EChartsCoreOption {
  const cuts = (m.cuts ?? []).filter((c) => points[c.index])
  const edges = [0, ...cuts.filter((c) => matters(c.verdict)).map((c) => c.index), points.length]
  const levels = edges.slice(0, -1).map((from, i) => {
    const part = points.slice(from, edges[i + 1])
    return { part, level: median(part.map((p) => p.value)) }
  })
  const color = (verdict: string) => (verdict === 'regressed' ? l.bad : verdict === 'improved' ? l.good : l.quiet)
  return {
    animation: false,
    grid: { left: 64, right: 20, top: 26, bottom: 24 },
    xAxis: timeAxis(l),
    yAxis: { ...axis(l, f), name: '', splitNumber: 3 },
    dataZoom: [{ type: 'inside', xAxisIndex: 0, filterMode: 'none', zoomOnMouseWheel: 'ctrl' }],
    tooltip: {
      ...tooltip(l), trigger: 'item',
      formatter: (e: { data?: { point?: TrendPoint } }) => {
        const p = e.data?.point
        return p ? tip(formatTime(p.time), [[m.name, shown(p.value, f)]], 'Select the point to open the run.') : ''
      },
    },
    series: [
      {
        type: 'scatter', symbolSize: points.length > 200 ? 4 : 6, itemStyle: { color: l.accent, opacity: 0.75 }, z: 3,
        data: points.map((p) => ({ value: [p.time, p.value], id: p.id, point: p })),
        markLine: {
          symbol: 'none', silent: true, animation: false,
          data: cuts.map((c) => ({
            xAxis: points[c.index]?.time,
            lineStyle: { color: color(c.verdict), width: matters(c.verdict) ? 1.4 : 0.8, type: matters(c.verdict) ? 'solid' : 'dotted' },
            label: {
              ...labelFont, color: color(c.verdict), formatter: c.shift_percent === null ? 'change' : formatPercent(c.shift_percent),
              show: matters(c.verdict), distance: 3,
            },
          })),
        },
      },
      ...levels.map(({ part, level }) => ({
        type: 'line', symbol: 'none', silent: true, z: 2, lineStyle: { color: l.text, width: 1.2, opacity: 0.7 },
        data: part.length ? [[part[0]?.time, level], [part.at(-1)?.time, level]] : [],
      })),
    ],
  }
}

function median(list: number[]): number {
  const sorted = [...list].sort((a, b) => a - b)
  const half = Math.floor(sorted.length / 2)
  return sorted.length % 2 ? (sorted[half] ?? 0) : ((sorted[half - 1] ?? 0) + (sorted[half] ?? 0)) / 2
}
