// The picture of a metric over the number of GPUs.
import type { EChartsCoreOption } from 'echarts/core'
import type { Field, Scaling } from '../api'
import { settingsText } from '../parts/Settings'
import { axis, labelFont, shown, tip, tooltip, type Look } from './look'


export function scalingOption(series: Scaling[], f: Field, l: Look): EChartsCoreOption {
  const counts = [...new Set(series.flatMap((s) => s.points.map((p) => p.gpus)))].sort((a, b) => a - b)
  return {
    animation: false,
    grid: { left: 64, right: 24, top: 18, bottom: 46 },
    xAxis: {
      type: 'log', logBase: 2, min: counts[0], max: counts.at(-1), name: 'GPUs', nameLocation: 'middle', nameGap: 28,
      nameTextStyle: { ...labelFont, fontSize: 12, color: l.text },
      axisLabel: { ...labelFont, color: l.quiet }, axisLine: { lineStyle: { color: l.line } }, splitLine: { lineStyle: { color: l.line, width: 0.6 } },
    },
    yAxis: { ...axis(l, f), nameGap: 50, min: 0, scale: false },
    tooltip: {
      ...tooltip(l), trigger: 'item',
      formatter: (e: { data?: { tip?: [string, [string, string][]] } }) => (e.data?.tip ? tip(...e.data.tip) : ''),
    },
    series: series.flatMap((s, i) => {
      const color = l.series[i % l.series.length]
      const base = s.points[0]
      const name = settingsText(s.settings)
      return [
        {
          type: 'line', name, symbol: 'circle', symbolSize: 8, lineStyle: { color, width: 1.6 }, itemStyle: { color },
          data: s.points.map((p) => ({
            value: [p.gpus, p.value], id: p.run,
            tip: [name, [
              ['GPUs', String(p.gpus)], [f.title ?? f.name, shown(p.value, f)], ['Efficiency', `${Math.round(p.efficiency * 100)} %`],
              ['Layout', settingsText(p.layout, '–')], ['Runs', String(p.of)],
            ]],
          })),
        },
        {
          type: 'line', symbol: 'none', silent: true, lineStyle: { color, width: 1, type: 'dotted', opacity: 0.6 },
          data: base && f.better === 'higher' ? counts.filter((n) => n >= base.gpus && n <= (s.points.at(-1)?.gpus ?? 0)).map((n) => [n, (base.value * n) / base.gpus]) : [],
        },
      ]
    }),
  }
}
