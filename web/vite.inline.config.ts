import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'
import { licensesInside } from './licenses.mjs'

/** A script that stands in a page must not have what ends it there. */
const safe: Plugin = {
  name: 'safe-in-html',
  generateBundle(_, bundle) {
    for (const part of Object.values(bundle)) {
      if (part.type === 'chunk') part.code = part.code.replace(/<(?=\/script|!--)/gi, '\\x3C').replace(/[\x7f-\uffff]/g, escaped)
    }
  },
}

/** Characters beyond ASCII, as strings and regular expressions may have them. */
const escaped = (c: string) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`

// The page inside one HTML file: one script and one style, built into the Go package that embeds them.
export default defineConfig({
  plugins: [react(), licensesInside(), safe],
  define: { 'process.env.NODE_ENV': '"production"' },
  publicDir: false,
  build: {
    outDir: '../pkg/inline/dist',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1500,
    cssCodeSplit: false,
    lib: { entry: 'src/inline.tsx', formats: ['iife'], name: 'profllm', fileName: () => 'inline.js', cssFileName: 'inline' },
  },
})
