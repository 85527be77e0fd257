// Package depcheck holds the test that compares the imports between our packages
// with the table in ARCHITECTURE.md. It has no code of its own.
package depcheck
