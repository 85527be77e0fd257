package store_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/store"
)

// noise is text that does not compress, of n bytes.
func noise(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range n {
		b.WriteByte(byte('a' + r.IntN(26)))
	}
	return b.String()
}

// Whatever a record says, a batch with it is stored, and a record that a database could not hold is refused alone: an
// upload that the database refuses as a whole would wait for ever.
//
// covers: SM-4, API-3
func TestHostileRecords(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(*result.Result)
		says  string // it is refused
	}{
		{"long suite", func(r *result.Result) { r.Suite = noise(1 << 20) }, "suite has 1048576 bytes"},
		{"long run id", func(r *result.Result) { r.RunID = noise(1 << 20) }, "run_id has 1048576 bytes"},
		{"run id that just fits", func(r *result.Result) { r.RunID = noise(2000) }, ""},
		{"run id with NUL", func(r *result.Result) { r.RunID = "a\x00b" }, ""},
		{"long model", set("cmd_args.model", noise(1<<20)), "cmd_args.model has 1048576 bytes"},
		{"long setting", set("cmd_args.some", noise(1<<20)), ""},
		{"long key", set("cmd_args."+noise(1<<20), "x"), "the name of a field has 1048585 bytes"},
		{"strange key", set("a\x00\"\\%'b\x1f", "\x00\x1f\x1b"), ""},
		{"huge numbers", func(r *result.Result) { r.Results.OutputThroughput = new(math.MaxFloat64) }, ""},
		{"long image", func(r *result.Result) { r.Provenance = &result.Provenance{Image: noise(9000)} }, "image has 9000 bytes"},
		{"many settings", func(r *result.Result) {
			r.Config.Settings = map[string]string{}
			for i := range 6000 {
				r.Config.Settings[fmt.Sprintf("cmd_args.v%d", i)] = "x"
			}
		}, "fields, and a store takes 5000"},
	}
	both(t, func(t *testing.T, place string) {
		s, good := open(t, place), complete(t)[0]
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				bad, res := good, *good.Result
				bad.Result, bad.Dir, res.RunID = &res, "/"+c.name, "exp_"+c.name
				c.spoil(&res)
				bad.Settings = res.Config.Settings
				list := put(t, s, bad, good)
				require.NotEqual(t, store.Refused, list[1].Did)
				if c.says == "" {
					require.Equal(t, store.Stored, list[0].Did, list[0].Why)
					return
				}
				require.Equal(t, store.Refused, list[0].Did)
				require.Contains(t, list[0].Why, c.says)
				require.Less(t, len(list[0].Why), 300)
			})
		}
		_, err := s.Query(ctx(t), query.Query{Facets: []string{"suite", "cmd_args.model"}})
		require.NoError(t, err)
		v, err := s.Verify(ctx(t), nil)
		require.NoError(t, err)
		require.Empty(t, v.Problems)
	})
}

func set(key, value string) func(*result.Result) {
	return func(r *result.Result) { r.Config.Settings = map[string]string{key: value} }
}
