const looks: Record<string, string> = {
  regressed: 'invalid', improved: 'valid', watch: 'suspect', 'not-comparable': 'suspect', 'too little data': 'other',
  'same within noise': 'other', 'no change found': 'other',
}

/** The verdict on a comparison or a series. */
export function Outcome({ word }: { word: string }) {
  return <span className={`badge ${looks[word] ?? 'other'}`}>{word === 'not-comparable' ? 'not comparable' : word}</span>
}
