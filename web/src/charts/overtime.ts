// The picture of one number of a run over time, a line for each role or GPU.
import type { EChartsCoreOption } from 'echarts/core'
import type { OverTime, Track } from '../api'
import { formatNumber } from '../format'
import { axis, labelFont, shown, tip, tooltip, type Look } from './look'

/** What a line is of. */
export const trackName = (t: Track) => (t.node && !t.of.startsWith(t.node) ? `${t.of} on ${t.node}` : t.of)

/** The colour of a line. */
export const trackColour = (i: number, l: Look) => l.series[i % l.series.length] ?? l.accent

/** The time from the first sample to the last, in ms, of all charts of a run. */
export function timeOf(o: OverTime): { begin: number; end: number } {
  let begin = Infinity
  let end = -Infinity
  for (const t of o.tracks ?? []) {
    begin = Math.min(begin, t.times[0] ?? begin)
    end = Math.max(end, t.times.at(-1) ?? end)
  }
  return { begin, end }
}

/** The beginnings of phases, with the names of the longest that have room for one. */
function marks(o: OverTime, begin: number, end: number) {
  const all = (o.phases ?? []).map((p) => ({
    name: p.Name, at: (p.Begin * 1000 - begin) / 1000, long: (p.End ? p.End * 1000 : end) - p.Begin * 1000, named: false,
  }))
  for (const m of [...all].sort((a, b) => b.long - a.long)) {
    m.named = all.every((x) => !x.named || Math.abs(x.at - m.at) > (0.2 * (end - begin)) / 1000)
  }
  return all.map((m) => ({ name: m.named ? m.name : '', xAxis: m.at }))
}

export function overTimeOption(tracks: Track[], o: OverTime, l: Look): EChartsCoreOption {
  const unit = tracks[0]?.unit
  const { begin, end } = timeOf(o)
  const peak = tracks.flatMap((t) => t.values).reduce<number>((most, v) => Math.max(most, v ?? 0), 0)
  const seconds = (ms: number) => (ms - begin) / 1000
  return {
    animation: false,
    grid: { left: 58, right: 16, top: 16, bottom: 24 },
    xAxis: {
      type: 'value', axisLabel: { ...labelFont, color: l.quiet, formatter: (x: number) => `${formatNumber(x)} s`, showMaxLabel: false, hideOverlap: true },
      axisLine: { lineStyle: { color: l.line } }, splitLine: { show: false }, axisTick: { show: false }, min: 0, max: seconds(end),
    },
    yAxis: { ...axis(l, undefined), min: 0, splitNumber: 3, ...(unit === '%' && peak > 50 && peak <= 100 && { max: 100, interval: 25 }) },
    tooltip: {
      ...tooltip(l), trigger: 'axis', axisPointer: { lineStyle: { color: l.quiet } },
      formatter: (list: { seriesName: string; value: [number, number | null] }[]) => tip(
        `${formatNumber(Math.round((list[0]?.value[0] ?? 0) * 10) / 10)} s`,
        list.filter((p) => p.value[1] !== null).slice(0, 12).map((p) => [p.seriesName, `${shown(p.value[1], undefined)}${unit ? ` ${unit}` : ''}`]),
      ),
    },
    series: tracks.map((t, i) => ({
      type: 'line', name: trackName(t), symbol: 'none', connectNulls: false, sampling: 'lttb',
      lineStyle: { width: 1.2, color: trackColour(i, l) }, itemStyle: { color: trackColour(i, l) },
      data: t.times.map((at, j) => [seconds(at), t.values[j] ?? null]),
      markLine: i > 0 ? undefined : {
        symbol: 'none', silent: true, animation: false, lineStyle: { color: l.quiet, type: 'dotted' },
        label: { ...labelFont, color: l.quiet, formatter: (p: { name: string }) => p.name },
        data: marks(o, begin, end),
      },
    })),
  }
}
