import { api, type FacetAnswer, type Field, type Filter } from '../api'
import { useAsked, useKnown } from '../data'
import { choose, join, nothing, parts } from '../filter'
import { formatValue, nameOf } from '../format'
import { update, type State } from '../state'
import { Different, isModel } from './Mixed'

// What a run served, under the names that clients have for it. Numbers of different work cannot be ranked. The list
// follows that of the comparison, pkg/report/alike.go.
const work = [
  'cmd_args.model',
  ...'dataset_name dataset_path input_file public_dataset hf_weka_dataset random_input_len random_input input_tokens prompt_input_tokens_mean synthetic_input_tokens_mean isl random_output_len random_output output_tokens prompt_output_tokens_mean output_tokens_mean osl'
    .split(' ').map((n) => `bench_cmd_args.${n}`),
]

interface Props {
  state: State
  x: string
  y: string
  colour: string | undefined
  stale: boolean // the points are of the filter before: their warning stays, and new points are asked for first
}

/** Warns that the points of a picture ran different work, or ran on different GPUs that look the same. */
export function Unlike({ state, x, y, colour, stale }: Props) {
  const { fields } = useKnown()
  const names = [...work, 'gpu'].filter((n) => (fields.get(n)?.distinct ?? 0) > 1)
  const drawn: Filter[] = [x, y].map((field) => ({ field, has: true }))
  const query = { filter: join([...parts(state.filter), ...drawn]), facets: names, within: true }
  const got = useAsked({
    queryKey: ['unlike', query], queryFn: ({ signal }) => api.apply(query, signal),
    enabled: !stale && names.length > 0 && x !== '' && y !== '',
  })
  const mixed = (got.data?.facets ?? []).flatMap((facet) => {
    const field = fields.get(facet.field)
    return field && countOf(facet) > 1 ? [{ facet, field }] : []
  })
  const served = mixed.filter((m) => m.field.name !== 'gpu')
  const gpus = mixed.find((m) => m.field.name === 'gpu' && colour !== 'gpu')
  if (served.length === 0 && !gpus) return null
  return (
    <div className="warn unlike" role="note">
      {served.length > 0 && (
        <p>
          <Different what="runs" list={served.map((m) => [m.field, countOf(m.facet)])} />{' '}
          <Keep state={state} {...served[0]!} />
        </p>
      )}
      {gpus && (
        <p>
          The runs are of {countOf(gpus.facet)} GPU models, which look alike here.{' '}
          <button type="button" className="plain inline" onClick={() => update({ colour: 'gpu' })}>Colour by GPU model</button>
        </p>
      )}
    </div>
  )
}

/** Different values of the runs; runs without a value, such as those of another client, are not counted. */
const countOf = (f: FacetAnswer) => (f.values?.length ?? 0) + ((f.others ?? 0) > 0 ? 1 : 0)

/** Narrows one field to its most frequent value, so that some runs always remain. */
function Keep({ state, facet, field }: { state: State; facet: FacetAnswer; field: Field }) {
  const most = [...(facet.values ?? [])].sort((a, b) => b.runs - a.runs)[0]
  if (!most) return null
  const keep = () => update({ filter: join(choose(parts(state.filter), field.name, { ...nothing, values: [most.value] })) })
  const value = formatValue(most.value, field)
  return <button type="button" className="plain inline" onClick={keep}>Keep only {isModel(field) ? value : `${nameOf(field)} ${value}`}</button>
}
