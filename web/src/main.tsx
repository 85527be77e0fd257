// The page of the dashboard, which a server answers.
import { createRoot } from 'react-dom/client'
import './styles'
import { answerFrom } from './api'
import { App } from './App'
import { Presets } from './bar/Presets'
import { server } from './http'
import type { Offer } from './offer'
import { Token } from './parts/Token'
import { CapacityView } from './views/CapacityView'
import { CompareView } from './views/CompareView'
import { OverTimeCharts, Traces } from './views/RunFiles'
import { TrendView } from './views/TrendView'
import { UploadView } from './views/UploadView'
import { impact, run, scaling, scatter, table } from './views/common'

const offer: Offer = {
  tabs: [
    table,
    scatter,
    { view: 'trend', name: 'Trend', title: 'Trends over time', show: (p) => <TrendView {...p} /> },
    impact,
    scaling,
    { view: 'capacity', name: 'Capacity', title: 'Capacity within limits', show: (p) => <CapacityView {...p} /> },
    { view: 'compare', name: 'Compare', title: 'Comparison', show: (p) => <CompareView {...p} /> },
    { view: 'upload', name: 'Upload', title: 'Upload', show: () => <UploadView /> },
    run,
  ],
  presets: Presets, token: Token, overTime: OverTimeCharts, traces: Traces, licenses: 'licenses.txt', records: true,
  statistics: 'of the matching runs',
}

answerFrom(server)
const root = document.getElementById('root')
if (root) createRoot(root).render(<App offer={offer} />)
