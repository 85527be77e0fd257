// Answers questions as the page inside a file does: the first line has the runs, each further one a question.
// A Go test asks: go test ./pkg/inline -run TestWebAnswers
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const [built] = await build({
  configFile: false, logLevel: 'silent',
  build: {
    write: false, minify: false, target: 'es2023',
    lib: { entry: fileURLToPath(new URL('../src/local/engine.ts', import.meta.url)), formats: ['es'], fileName: 'engine' },
  },
})
const { Engine } = await import(`data:text/javascript,${encodeURIComponent(built.output[0].code)}`)

let engine
for await (const line of createInterface({ input: process.stdin })) {
  let answer
  if (!engine) {
    const d = JSON.parse(line)
    engine = new Engine({ ...d, fields: d.options.fields ?? [] })
    answer = {}
  } else {
    try {
      answer = { answer: engine.query(JSON.parse(line)) }
    } catch (error) {
      answer = { error: error.message }
    }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
