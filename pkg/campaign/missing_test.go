package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingFilesAreNamedWithNearOnes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"scenario.toml", "other.toml", "notes.md", ".hidden.toml"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "results"), 0o755))
	for name, want := range map[string]string{
		"scenaro.toml":  "DIR/scenaro.toml: no such file or directory\n\thint: did you mean DIR/scenario.toml?",
		"SCENARIO.TOML": "DIR/SCENARIO.TOML: no such file or directory\n\thint: did you mean DIR/scenario.toml?",
		"result":        "DIR/result: no such file or directory\n\thint: did you mean DIR/results?",
		"site.toml":     "DIR/site.toml: no such file or directory\n\thint: *.toml files in DIR: other.toml, scenario.toml",
		"a.json":        "DIR/a.json: no such file or directory\n\thint: there are no *.json files in DIR",
		"nowhere":       "DIR/nowhere: no such file or directory\n\thint: folders in DIR: results",
		"result/x/plan": "DIR/result/x/plan: no such file or directory\n\thint: the folder DIR/result/x does not exist; the folder DIR/result does not exist; did you mean DIR/results?",
	} {
		_, err := os.Stat(filepath.Join(dir, name))
		got := Explain(fmt.Errorf("scenario: %w", err))
		require.Equal(t, "scenario: "+strings.ReplaceAll(want, "DIR", dir), got, name)
	}
	_, err := os.Open(filepath.Join(dir, "x.toml"))
	require.NotContains(t, Explain(fmt.Errorf("%w\n\thint: another", err)), "files in", "a hint of its own is kept")
	require.Equal(t, "other", Explain(fmt.Errorf("other")))
}
