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
import { run, scatter, table } from './views/common'

const offer: Offer = {
  tabs: [table, scatter, run], records: false, frontier: 'of all runs', back: { name: 'Report', href: '#' },
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
  answerFrom(local(JSON.parse(found('runs')?.textContent ?? '') as Data))
  shown = createRoot(root)
  shown.render(<App offer={offer} />)
}

keepInFragment('explore')
window.addEventListener('popstate', show)
window.addEventListener('hashchange', show)
found('views')?.removeAttribute('hidden')
show()
