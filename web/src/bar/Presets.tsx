import { Button, Popover, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useKnown } from '../data'
import { sentence } from '../filter'
import { server } from '../http'
import { Trouble } from '../parts/Trouble'
import { format, show, type State } from '../state'

/** Saved filters with their view: load, save, delete. */
export function Presets({ state }: { state: State }) {
  const { options, fields } = useKnown()
  const [shown, setShown] = useState(false)
  const [name, setName] = useState('')
  const [error, setError] = useState<Error>()
  const client = useQueryClient()
  const got = useQuery({ queryKey: ['presets'], queryFn: ({ signal }) => server.presets(signal), enabled: shown, staleTime: 0 })
  const act = async (what: () => Promise<unknown>) => {
    setError(undefined)
    try {
      await what()
      await client.invalidateQueries({ queryKey: ['presets'] })
      setName('')
    } catch (e) {
      setError(e instanceof Error ? e : new Error(String(e)))
    }
  }
  const save = () => act(() => server.savePreset({
    name: name.trim(), filter: state.filter ?? {}, view: format({ ...state, runs: [], run: undefined, theme: undefined }),
  }))
  const list = got.data?.presets ?? []
  return (
    <Popover opened={shown} onChange={setShown} position="bottom-end" width={340} shadow="md" trapFocus returnFocus>
      <Popover.Target>
        <Button size="xs" variant="default" onClick={() => setShown(!shown)}>Presets</Button>
      </Popover.Target>
      <Popover.Dropdown className="chooser">
        {list.length === 0 && got.data && <p className="quiet">No filter is saved yet.</p>}
        {list.length > 0 && (
          <ul className="presets">
            {list.map((p) => (
              <li key={p.name}>
                <button
                  type="button" className="preset" onClick={() => {
                    show(typeof p.view === 'string' ? p.view : '', p.filter ?? undefined)
                    setShown(false)
                  }}
                >
                  <b className="clip">{p.name}</b>
                  <span className="quiet clip">{p.filter ? sentence(p.filter, fields) : 'all runs'}</span>
                </button>
                {!options.readonly && <button type="button" className="plain" aria-label={`Delete the preset ${p.name}`} onClick={() => void act(() => server.deletePreset(p.name))}>delete</button>}
              </li>
            ))}
          </ul>
        )}
        {!options.readonly && (
          <form
            className="row-of" onSubmit={(e) => {
              e.preventDefault()
              void save()
            }}
          >
            <TextInput className="grow" size="xs" placeholder="Name of the current filter" aria-label="Name of the preset" value={name} maxLength={100} onChange={(e) => setName(e.currentTarget.value)} />
            <Button size="xs" type="submit" disabled={!name.trim()}>{list.some((p) => p.name === name.trim()) ? 'Replace' : 'Save'}</Button>
          </form>
        )}
        {(error ?? got.error) && <Trouble error={(error ?? got.error) as Error} />}
      </Popover.Dropdown>
    </Popover>
  )
}
