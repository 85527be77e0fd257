// The picture of the efficiency of a metric over the number of GPUs.
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
    yAxis: {
      ...axis(l, { ...f, unit: '' }), name: 'Efficiency', nameGap: 50, min: 0, scale: false,
      axisLabel: { ...labelFont, color: l.quiet, formatter: (x: number) => `${Math.round(x * 100)} %` },
    },
    tooltip: {
      ...tooltip(l), trigger: 'item',
      formatter: (e: { data?: { tip?: [string, [string, string][]] } }) => (e.data?.tip ? tip(...e.data.tip) : ''),
    },
    series: [
      ...series.map((s, i) => {
        const color = l.series[i % l.series.length]
        const name = settingsText(s.settings)
        return {
          type: 'line', name, symbol: 'circle', symbolSize: 8, lineStyle: { color, width: 1.6 }, itemStyle: { color },
          data: s.points.map((p) => ({
            value: [p.gpus, p.efficiency], id: p.run,
            itemStyle: p.low_load ? { color: l.ground, borderColor: color, borderWidth: 1.6 } : { color },
            tip: [name, [
              ['GPUs', String(p.gpus)], [f.title ?? f.name, shown(p.value, f)], ['Efficiency', `${Math.round(p.efficiency * 100)} %`],
              ['Layout', settingsText(p.layout, '–')], ['Runs', String(p.of)],
            ]],
          })),
        }
      }),
      {
        type: 'line', symbol: 'none', silent: true, lineStyle: { color: l.quiet, width: 1, type: 'dotted' },
        data: counts.map((n) => [n, 1]),
      },
    ],
  }
}
