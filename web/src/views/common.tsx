// The views that every page has.
import type { Tab } from '../offer'
import { ImpactView } from './ImpactView'
import { RunView } from './RunView'
import { ScalingView } from './ScalingView'
import { ScatterView } from './ScatterView'
import { TableView } from './TableView'

export const table: Tab = { view: 'table', name: 'Table', title: 'Table of runs', show: (p) => <TableView {...p} /> }
export const scatter: Tab = { view: 'scatter', name: 'Scatter', title: 'Scatter of two metrics', show: (p) => <ScatterView {...p} /> }
export const impact: Tab = { view: 'impact', name: 'Impact', title: 'Impact of settings', show: (p) => <ImpactView {...p} /> }
export const scaling: Tab = { view: 'scaling', name: 'Scaling', title: 'Scaling over GPUs', show: (p) => <ScalingView {...p} /> }
export const run: Tab = { view: 'run', name: 'Run', title: 'One run', show: (p) => <RunView {...p} />, unlisted: true }
