// The page inside one HTML file, a report: it answers from the runs in the file. The report is shown until
// the reader opens the views.
import { createRoot, type Root } from 'react-dom/client'
import './styles'
import './inline.css'
import { answerFrom } from './api'
import { App } from './App'
import { local, type Data } from './local/source'
import type { Offer } from './offer'
import { keepInFragment, open } from './state'
import { impact, run, scaling, scatter, table } from './views/common'

function offerOf(d: Data): Offer {
  const analysed = d.impacts ? [{ ...impact, ofAll: true }, { ...scaling, ofAll: true }] : []
  return {
    tabs: [table, scatter, ...analysed, run], records: false, statistics: 'of all runs', back: { name: 'Report', href: '#' },
  }
}

const found = (id: string) => document.getElementById(id)
const style = (id: string) => found(id) as HTMLStyleElement
const titles = { report: document.title, views: document.title }
let shown: Root | undefined

/** Shows the report or the views, as the address says. Print has the report in any case. */
function show(): void {
  const views = open()
  const before = style('page-style').media === 'screen'
  style('report-style').media = views ? 'print' : 'all'
  style('page-style').media = views ? 'screen' : 'not all'
  if (views === before) return
  if (before) titles.views = document.title
  document.title = views ? titles.views : titles.report
  const root = found('root')
  if (!views || shown || !root) return
  const data = JSON.parse(found('runs')?.textContent ?? '') as Data
  answerFrom(local(data))
  shown = createRoot(root)
  shown.render(<App offer={offerOf(data)} />)
}

keepInFragment('explore')
window.addEventListener('popstate', show)
window.addEventListener('hashchange', show)
found('views')?.removeAttribute('hidden')
show()
