import type { EChartsCoreOption, ECharts } from 'echarts/core'
import { useEffect, useRef, useState } from 'react'

interface Props {
  option: EChartsCoreOption
  label: string // what the chart shows, for screen readers
  height?: number | string
  open?: (id: string) => void // a point with an id was clicked
  find?: (series: number, index: number) => string | undefined // the id of a point whose data has none
}

const load = () => import('./echarts')

/** Draws an ECharts option, and follows the size of its box. */
export function Chart({ option, label, height = 260, open, find }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const [chart, setChart] = useState<ECharts>()
  const opened = useRef(open)
  opened.current = open
  const finder = useRef(find)
  finder.current = find
  useEffect(() => {
    let gone = false
    let made: ECharts | undefined
    let watch: ResizeObserver | undefined
    void load().then(({ init }) => {
      if (gone || !box.current) return
      const c = init(box.current)
      made = c
      c.on('click', (p) => {
        const id = finder.current?.(p.seriesIndex ?? -1, p.dataIndex) ?? (p.data as { id?: string } | undefined)?.id
        if (id) opened.current?.(id)
      })
      watch = new ResizeObserver(() => c.resize())
      watch.observe(box.current)
      setChart(c)
    })
    return () => {
      gone = true
      watch?.disconnect()
      made?.dispose()
    }
  }, [])
  useEffect(() => {
    chart?.setOption(option, { notMerge: true })
  }, [chart, option])
  return <div ref={box} className="chart" role="img" aria-label={label} style={{ height }} />
}
