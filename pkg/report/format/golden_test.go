package format_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Every form of a report of one of everything.
//
// covers: CD-31, CD-34
func TestGolden(t *testing.T) {
	golden, err := filepath.Abs(filepath.Join("testdata", "golden"))
	require.NoError(t, err)
	inTemp(t)
	night(t)
	rep := report.Build(load(t, "results"), report.Options{})
	require.Equal(t, toJSON(t, rep), toJSON(t, report.Build(load(t, "results"), report.Options{})),
		"the same records give the same report")
	for name, form := range map[string]func(io.Writer, *report.Report) error{
		"night.txt": format.Text, "night.md": format.Markdown, "night.csv": format.CSV, "night.json": format.JSON, "night.html": format.Page{}.Write,
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, form(&out, rep))
			file := filepath.Join(golden, name)
			if *update {
				require.NoError(t, os.MkdirAll(golden, 0o755))
				require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
				return
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), out.String())
		})
	}
}
