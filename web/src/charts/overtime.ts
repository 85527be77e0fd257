// The picture of one number of a run over time, a line for each role or GPU.
import type { EChartsCoreOption } from 'echarts/core'
import type { OverTime, Track } from '../api'
import { formatNumber } from '../format'
import { axis, labelFont, shown, tip, tooltip, type Look } from './look'

export function overTimeOption(tracks: Track[], o: OverTime, begin: number, l: Look): EChartsCoreOption {
  const unit = tracks[0]?.unit
  const seconds = (ms: number) => (ms - begin) / 1000
  const name = (t: Track) => [t.of, t.node].filter(Boolean).join(' on ')
  return {
    animation: false,
    grid: { left: 58, right: 16, top: 16, bottom: 24 },
    xAxis: {
      type: 'value', axisLabel: { ...labelFont, color: l.quiet, formatter: (x: number) => `${formatNumber(x)} s` },
      axisLine: { lineStyle: { color: l.line } }, splitLine: { show: false }, axisTick: { show: false }, min: 0,
    },
    yAxis: { ...axis(l, undefined), min: 0, splitNumber: 3 },
    tooltip: {
      ...tooltip(l), trigger: 'axis', axisPointer: { lineStyle: { color: l.quiet } },
      formatter: (list: { seriesName: string; value: [number, number | null] }[]) => tip(
        `${formatNumber(Math.round((list[0]?.value[0] ?? 0) * 10) / 10)} s`,
        list.filter((p) => p.value[1] !== null).slice(0, 12).map((p) => [p.seriesName, `${shown(p.value[1], undefined)}${unit ? ` ${unit}` : ''}`]),
      ),
    },
    series: tracks.map((t, i) => ({
      type: 'line', name: name(t), symbol: 'none', connectNulls: false, sampling: 'lttb',
      lineStyle: { width: 1.2, color: l.series[i % l.series.length] }, itemStyle: { color: l.series[i % l.series.length] },
      data: t.times.map((at, j) => [seconds(at), t.values[j] ?? null]),
      markLine: i > 0 ? undefined : {
        symbol: 'none', silent: true, animation: false, lineStyle: { color: l.quiet, type: 'dotted' },
        label: { ...labelFont, color: l.quiet, formatter: (p: { name: string }) => p.name },
        data: (o.phases ?? []).map((p) => ({ name: p.Name, xAxis: seconds(p.Begin * 1000) })),
      },
    })),
  }
}
