package collect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

func packed(t *testing.T, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// Pages of counters packed by xz say the same; one that is damaged is named, and what
// came before the damage counts.
func TestPackedPages(t *testing.T) {
	dir := recorded(t)
	want := only(t, collector(t), dir, completed())
	pages, err := filepath.Glob(filepath.Join(dir, run.RawDir, "*.prom"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		write(t, dir, filepath.Join(run.RawDir, filepath.Base(page)+".xz"), packed(t, data))
		require.NoError(t, os.Remove(page))
	}
	require.Equal(t, want, only(t, collector(t), dir, completed()))

	damaged := pages[0] + ".xz"
	data, err := os.ReadFile(damaged)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(damaged, data[:len(data)-len(data)/3], 0o644))
	r := only(t, collector(t), dir, completed())
	require.Condition(t, func() bool {
		for _, w := range r.Warnings {
			if w.Kind == result.Unreadable && w.File == run.RawDir+"/"+filepath.Base(damaged) {
				return true
			}
		}
		return r.Results.Server == nil || len(r.Results.Server) < len(want.Results.Server)
	}, "%v", r.Warnings)
}

// What a test sets is judged by, and said.
func TestAcceptedThresholds(t *testing.T) {
	dir := recorded(t)
	data, err := os.ReadFile(filepath.Join(dir, run.PlanFile))
	require.NoError(t, err)
	write(t, dir, run.PlanFile,
		strings.Replace(string(data), "{", `{"accept": {"failed_share": 0.5, "questions": 1000},`, 1))
	v := only(t, collector(t), dir, completed()).Validity
	require.Contains(t, v.Check("request-errors").Detail,
		"; failed_share = 0.5 is set by the test, looser than the default 0")
	require.Equal(t, result.Fail, v.Check("accuracy-subset").Outcome)
	require.Contains(t, v.Check("accuracy-subset").Detail,
		"(accepted from 1000); questions = 1000 is set by the test, stricter than the default 200")
}

func FuzzPage(f *testing.F) {
	page, err := os.ReadFile("testdata/disaggregated/raw/metrics-decode-after.prom")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page)
	f.Add(page[:len(page)/2])
	f.Add([]byte("\xfd7zXZ\x00"))
	c := collector(&testing.T{})
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := recorded(t)
		name := "metrics-decode-after.prom"
		require.NoError(t, os.Remove(filepath.Join(dir, run.RawDir, name)))
		if bytes.HasPrefix(data, []byte("\xfd7zXZ\x00")) {
			name += ".xz"
		}
		write(t, dir, filepath.Join(run.RawDir, name), string(data))
		_, err := c.Run(dir, nil)
		require.NoError(t, err)
	})
}
