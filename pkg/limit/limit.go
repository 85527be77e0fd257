// Package limit holds the bounds that all readers of text share, so that what one
// format refuses no other takes. How large a file may be is in pkg/regular.
package limit

// Depth is how deep lists and tables may lie within each other, in JSON, TOML, YAML
// and the cells of tables. Real files have some ten levels.
const Depth = 200
