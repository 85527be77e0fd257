import { Tooltip } from '@mantine/core'
import type { Value } from '../api'
import { isUnreal, wordOf } from '../kind'

const meaning: Record<string, string> = {
  valid: 'Every check that could be made passed, or only withholds a number.',
  suspect: 'A check found a reason to doubt the numbers. Such a run is never a baseline.',
  invalid: 'A check found the numbers wrong. Do not compare them.',
  simulated: 'The engine was simulated. The numbers are not measurements.',
  profiled: 'A profiler ran in the engine. The numbers are slower than real ones.',
  '': 'The run has no verdict: it was not judged, or has no record.',
}

/** A word about whether a run can be believed, with its explanation. */
export function Badge({ word, text, why }: { word: string; text?: string; why?: string }) {
  const known = word in meaning ? word : 'other'
  const help = why ?? meaning[word]
  const badge = <span className={`badge ${known || 'unjudged'}`}>{text ?? (word || 'not judged')}</span>
  return help ? <Tooltip label={help} multiline maw={320} withArrow openDelay={300}>{badge}</Tooltip> : badge
}

/** A badge of a list with many rows: the browser's own tooltip costs nothing. */
function Word({ word, text = word }: { word: string; text?: string }) {
  return <span className={`badge ${word in meaning ? word || 'unjudged' : 'other'}`} title={meaning[word]}>{text || 'not judged'}</span>
}

/** The verdict of a row, what kind of run it is where kinds are mixed, and why it is not valid, with the log line. */
export function Verdict({ verdict, kind, why = '', line }: { verdict: Value | undefined; kind?: Value; why?: string; line?: Value }) {
  return (
    <span className="badges">
      <Word word={String(verdict ?? '')} />
      {isUnreal(kind) && <Word word={wordOf(kind)} text={String(kind)} />}
      {why && <span className="quiet clip" title={line ? `${why}: ${line}` : why}>{why}{line && <span className="sr">: {line}</span>}</span>}
    </span>
  )
}

/** Belief is what charts draw hollow without. */
export function believed(verdict: Value | undefined): boolean {
  return verdict === 'valid'
}
