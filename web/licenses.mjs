// Writes licenses.txt into the build: the license texts of every package that the page bundles. The texts are
// those of the packages, as they come.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//

// Packages without a license file, and the package of the same author and license whose text is theirs.
const textOf = { 'react-remove-scroll-bar': 'react-remove-scroll' }

const line = '-'.repeat(80)

/** A plugin of Vite that adds the file. */
export function licenses() {
  return {
    name: 'licenses',
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: notices(bundled(this.getModuleIds())) })
    },
  }
}

/** A plugin of Vite that begins each script with them, for a page that is one file. */
export function licensesInside() {
  return {
    name: 'licenses-inside',
    generateBundle(_, bundle) {
      const text = notices(bundled(this.getModuleIds())).replaceAll('*/', '* /')
      for (const part of Object.values(bundle)) {
        if (part.type === 'chunk') part.code = `/*!\n${text}*/\n${part.code}`
      }
    },
  }
}

/** The folders of the packages to which modules belong. */
function bundled(modules) {
  const roots = new Set()
  for (const id of modules) {
    const at = root.exec(id.split('?')[0].replaceAll('\\', '/'))
    if (at) roots.add(at[1])
    if (id.startsWith('\0rolldown/')) roots.add(join(import.meta.dirname, 'node_modules/rolldown'))
  }
  return [...roots]
}

/** The notices of packages, given their folders, sorted by name. */
export function notices(folders) {
  const list = folders.map((dir) => ({ dir, ...JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8')) }))
  list.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.version < b.version ? -1 : 1))
  const head = 'The page of the profllm dashboard contains the packages below. Their licenses ask for these texts.\n' +
    'This file is generated when the page is built.\n'
  return [head, ...list.map((p) => `${line}\n${p.name} ${p.version}\nLicense: ${p.license}\n\n${texts(p)}`)].join('\n')
}

function texts({ dir, name }) {
  const own = files(dir)
  if (own.length > 0) return own.map((f) => `${readFileSync(f, 'utf8').replaceAll('\r\n', '\n').trim()}\n`).join('\n')
  const other = textOf[name]
  if (!other) throw new Error(`${name} has no license file: name in web/licenses.mjs whose text is its license`)
  return `The package has no license file. That of ${other}, by the same author:\n\n${texts({ dir: dir.slice(0, -name.length) + other, name: other })}`
}

/** The license files of a package, and those of what it contains itself. */
function files(dir) {
  const found = readdirSync(dir, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
    .filter((f) => f.isFile() && /^(licen[cs]e|copying|notice)/i.test(f.name)).map((f) => join(dir, f.name))
  const within = join(dir, 'licenses')
  return existsSync(within) ? [...found, ...readdirSync(within).sort().map((f) => join(within, f))] : found
}
