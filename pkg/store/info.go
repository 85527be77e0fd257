package store

import (
	"context"
	"time"
)

// Info is what a store holds, and how large it may grow.
type Info struct {
	Store    string     `json:"store"` // file or URL, without a password
	Kind     string     `json:"kind"`  // sqlite or postgres
	Runs     int        `json:"runs"`
	Formers  int        `json:"formers"` // former records
	Presets  int        `json:"presets"`
	Columns  int        `json:"columns"`  // of benchmark_runs
	Bytes    int64      `json:"bytes"`    // on disk
	PerRun   int64      `json:"per_run"`  // bytes; without runs what most need
	Measured bool       `json:"measured"` // per_run is that of this store
	Million  int64      `json:"million"`  // bytes for 1,000,000 such runs
	Records  int64      `json:"records"`  // bytes of the compressed records
	Version  int64      `json:"version"`  // of the tables
	First    *time.Time `json:"first"`    // start of the oldest run
	Newest   *time.Time `json:"newest"`   // start of the newest run
	Notes    []string   `json:"notes,omitempty"`
}

// usual is what a run needs, in bytes: measured on records of 10 to 25 kB.
const usual = 16 << 10

// Info looks at the store.
func (s *Store) Info(ctx context.Context) (Info, error) {
	i := Info{Store: s.place, Kind: s.Kind(), Columns: len(known().columns) + len(own), Notes: s.notes}
	var first, newest *int64
	row := s.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM benchmark_runs), (SELECT count(*) FROM former_records),
		(SELECT count(*) FROM presets), (SELECT coalesce(sum(length(record)), 0) FROM records),
		(SELECT min(timestamp) FROM benchmark_runs), (SELECT max(timestamp) FROM benchmark_runs),
		(SELECT max(version_id) FROM store_versions)`)
	if err := row.Scan(&i.Runs, &i.Formers, &i.Presets, &i.Records, &first, &newest, &i.Version); err != nil {
		return i, err
	}
	i.First, i.Newest = ofMillis(first), ofMillis(newest)
	var err error
	if i.Bytes, err = s.sql.size(ctx, s); err != nil {
		return i, err
	}
	if i.PerRun = usual; i.Runs >= 100 { // of fewer, the empty tables are most
		i.PerRun, i.Measured = i.Bytes/int64(i.Runs), true
	}
	i.Million = i.PerRun * 1_000_000
	return i, nil
}

func ofMillis(ms *int64) *time.Time {
	if ms == nil {
		return nil
	}
	t := time.UnixMilli(*ms).UTC()
	return &t
}
