package upload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
)

// Whatever a file is called and has in it, reading it ends with runs that have verdicts, or with an error of the
// file: neither a fault of the program nor one of this machine.
func FuzzRead(f *testing.F) {
	for _, path := range []string{
		"../result/testdata/releases/2026-11-22/release/aggregated/0/result.json", "../bench/vllmserve/testdata/real/serve.json",
	} {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add("a.json", data)
		f.Add("a.tar.xz", data)
	}
	for _, text := range []string{
		`{"schema": "profllm.result/1"}`, `{"schema": "profllm.result/1", "run_id": "x", "suite": "../..", "validity": {"valid": true}}`,
		`{"schema": "profllm.result/2"}`, `[]`, "{}", "\xfd7zXZ\x00", "\x1f\x8b",
	} {
		f.Add("a", []byte(text))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		name, err := safeName(name)
		if err != nil || filepath.Base(name) != name {
			t.Skip("a name that is refused, or has folders")
		}
		box := t.TempDir()
		path := filepath.Join(box, "sent", name)
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, 0o600))
		r := &reader{collector: &collect.Collector{}, work: filepath.Join(box, "work"), from: path, name: name}
		require.NoError(t, os.Mkdir(r.work, 0o700))
		s := &Spool{opts: Options{Bytes: 1 << 20, Entries: 100, Log: func(format string, args ...any) { t.Fatalf(format, args...) }}}
		runs, err := s.runs(t.Context(), r)
		require.NoError(t, r.fault, "%v", err)
		if err != nil {
			return
		}
		for _, x := range runs {
			require.NotNil(t, x.Result)
			require.NotEmpty(t, x.Result.Validity.Checks)
		}
		entries, err := os.ReadDir(box)
		require.NoError(t, err)
		require.Len(t, entries, 2)
	})
}
