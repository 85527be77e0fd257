package validity_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

func TestContradiction(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*run) // the verdict
		after  func(*result.Result)
		want   string
	}{
		{"as collected", nil, nil, ""},
		{"throughput", nil, func(r *result.Result) { r.Results.OutputThroughput = new(600.0) }, "output_throughput 600 x 100 s is 60000, not 50000"},
		{"rounded", nil, func(r *result.Result) { r.Results.OutputThroughput = new(505.0) }, ""},
		{"window", nil, func(r *result.Result) { r.Results.Duration = new(50.0) }, "request_throughput 10 x 50 s is 500, not 1000, output_throughput 500 x 50 s is 25000, not 50000, total_token_throughput 1500 x 50 s is 75000, not 150000"},
		{"per GPU", nil, func(r *result.Result) { r.Results.GPUs, r.Results.OutputPerGPU = new(4), new(250.0) }, "output_throughput_per_gpu 250 x 4 GPUs is 1000, not 500"},
		{"per GPU of another program", nil, func(r *result.Result) {
			r.Results.GPUs, r.Results.OutputPerGPU, r.Provenance = new(4), new(250.0), &result.Provenance{Foreign: "aiperf"}
		}, ""},
		{"no verdict", nil, func(r *result.Result) { r.Validity = nil }, ""},
		{"no checks", nil, func(r *result.Result) { r.Validity = &result.Validity{Valid: true} }, ""},
		{"invalid", func(g *run) { g.requests(0, 1000) }, nil, ""},
		{"suspect", func(g *run) { g.r.Results.FromLog = true }, nil, ""},
		{"its checks say so", func(g *run) { g.r.Results.OutputThroughput = new(600.0) }, nil, ""},
		{"the test accepts it", func(g *run) {
			g.r.Results.OutputThroughput = new(600.0)
			g.e.Limits = validity.Limits{"rate_deviation": 0.5}
		}, nil, ""},
		{"made valid", func(g *run) { g.requests(900, 100) }, func(r *result.Result) { r.Validity.Valid = true },
			"validity.valid is true, but failed: request-errors"},
		{"made invalid", nil, func(r *result.Result) { r.Validity.Valid, r.Validity.Verdict = false, result.VerdictInvalid },
			"validity.valid is false, but no check of severity invalid failed, validity.verdict is invalid, but its checks give valid"},
		{"word taken out", func(g *run) { g.r.Results.FromLog = true }, func(r *result.Result) { r.Validity.Words = nil },
			"check from-log failed, but is not in validity.words"},
		{"check mended", func(g *run) { g.r.Results.FromLog = true }, func(r *result.Result) { r.Validity.Check("from-log").Outcome = result.Pass },
			"validity.verdict is suspect, but its checks give valid, validity.words has from-log, but no failed check has this word"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := good()
			if c.before != nil {
				c.before(g)
			}
			g.r.Validity = validity.Judge(&g.r, g.e)
			if c.after != nil {
				c.after(&g.r)
			}
			require.Equal(t, c.want, validity.Contradiction(&g.r))
		})
	}
}

func TestRecordsOfReleasesDoNotContradictThemselves(t *testing.T) {
	require.NoError(t, filepath.WalkDir("../result/testdata/releases",
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "result.json" && filepath.Base(filepath.Dir(path)) != "records" {
				return err
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			r, err := result.Decode(data)
			require.NoError(t, err)
			require.Empty(t, validity.Contradiction(r), path)
			return nil
		}))
}
