package buildinfo

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLine(t *testing.T) {
	git := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "08d5b1557"}, {Key: "vcs.time", Value: "2026-11-25T23:30:00-02:00"}, {Key: "vcs.modified", Value: "true"},
	}
	for want, c := range map[string]struct {
		version, commit, date string
		settings              []debug.BuildSetting
	}{
		"profllm v1.2.3, commit 08d5b1557 (modified), 2026-11-26": {version: "v1.2.3", settings: git},
		"profllm v1.2.3, commit abc, 2026-01-02":                  {version: "v1.2.3", commit: "abc", date: "2026-01-02"},
		"profllm v0.0.0-20261125141015-08d5b15aaaaa, commit 08d5b15aaaaa, 2026-11-25": {
			version: "v0.0.0-20261125141015-08d5b15aaaaa"},
		"profllm v1.2.4-0.20261125141015-08d5b15aaaaa+dirty, commit 08d5b15aaaaa, 2026-11-25": {
			version: "v1.2.4-0.20261125141015-08d5b15aaaaa+dirty"},
		"profllm (devel), commit unknown, date unknown": {version: "(devel)"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.version}, Settings: c.settings}
		require.Equal(t, want, Line("profllm", info, c.commit, c.date))
	}
	require.Equal(t, "profllm unknown, commit unknown, date unknown", Line("profllm", nil, "", ""))
}
