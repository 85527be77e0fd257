import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { licenses } from './licenses.mjs'

// The page is built into the Go package that embeds it.
export default defineConfig({
  base: './',
  plugins: [react(), licenses()],
  build: {
    outDir: '../pkg/dashboard/dist',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0, // no data: addresses, which a strict content security policy refuses
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8080' } },
})
