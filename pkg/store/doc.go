// Package store keeps records where they can be found again: in a file of SQLite, or in a database
// of PostgreSQL that several people share. It is an index. Result folders stay the truth, and
// a store is filled again from them.
//
// The table benchmark_runs has one row for each run and a typed column for each field of
// package field. The table records has the whole record beside it, compressed, and what
// records.Run knows besides.
//
//	s, err := store.Open(ctx, "runs.db", store.Options{Create: true})
//	outcomes, err := s.Put(ctx, runs)
//	run, err := s.Get(ctx, outcomes[0].ID)
//	answer, err := s.Query(ctx, query.Query{Filter: f, Facets: []string{"gpu"}})
package store
