package store

// expr is a part of a query with the values that it is bound to.
type expr struct {
	text string
	args []any
}
