// The parts of ECharts in use. Loaded when the first chart is shown.
import { LineChart, ScatterChart } from 'echarts/charts'
import { DataZoomComponent, GridComponent, MarkLineComponent, TooltipComponent } from 'echarts/components'
import { init, use } from 'echarts/core'
import { LabelLayout } from 'echarts/features'
import { CanvasRenderer } from 'echarts/renderers'

use([LineChart, ScatterChart, DataZoomComponent, GridComponent, MarkLineComponent, TooltipComponent, LabelLayout, CanvasRenderer])

export { init }
