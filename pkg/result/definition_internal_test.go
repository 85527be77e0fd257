package result

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// covers: PL-D20
func TestRedefined(t *testing.T) {
	all := []Redefinition{
		{2, []string{"joules_per_token"}, "input tokens count as well"},
		{3, []string{"p99_ttft_ms", "median_"}, "from the first send on"},
	}
	for _, c := range []struct {
		key  string
		a, b int
		want string
	}{
		{"joules_per_token", 1, 1, ""}, {"joules_per_token", 0, 1, ""}, {"joules_per_token", 2, 3, ""}, {"joules_per_token", 3, 3, ""},
		{"joules_per_token", 1, 2, "since version 2 of the metrics' definitions: input tokens count as well"},
		{"joules_per_token", 3, 0, "since version 2"},
		{"median_ttft_ms", 2, 3, "since version 3"}, {"median_tpot_ms", 1, 3, "since version 3"}, {"p99_ttft_ms", 1, 2, ""}, {"p95_ttft_ms", 1, 3, ""},
		{"anything", 3, 4, "version 4 of the metrics' definitions is unknown to this profllm (the other record has 3)"}, {"anything", 4, 4, ""},
	} {
		got := redefined(all, 3, c.key, c.a, c.b)
		require.Equal(t, c.want == "", got == "", "%v: %s", c, got)
		require.Contains(t, got, c.want)
	}
	for _, r := range redefinitions {
		require.LessOrEqual(t, r.Version, MetricsVersion)
		require.NotEmpty(t, r.Keys)
		require.NotEmpty(t, r.What)
	}
}

// covers: PL-V25
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"0.11.0", "0.11.0", true}, {"v0.11.0", "0.11.0", true}, {"0.11.0+cu128", "0.11.0", true}, {"V0.11.0", "0.11.0+cu128", true},
		{"0.11.0+cu126", "0.11.0+cu128", false}, {"0.11.0", "0.11.1", false}, {"0.11.0", "0.11.0rc1", false}, {"vision", "ision", false},
	} {
		require.Equal(t, c.same, SameVersion(c.a, c.b), c)
		require.Equal(t, c.same, SameVersion(c.b, c.a), c)
	}
	for _, c := range []struct {
		version, want string
		has           bool
	}{
		{"0.11.2", "0.11", true}, {"v0.11.2+cu128", "0.11", true}, {"0.110.0", "0.11", false}, {"0.11.2", "", false}, {"0.11.2+cu128", "0.11+cu128", false}, {"0.11", "0.11.2", false},
	} {
		require.Equal(t, c.has, HasVersion(c.version, c.want), c)
	}
	require.Equal(t, "0.11.0+cu128", CommonVersion([]string{"", "v0.11.0", "0.11.0+cu128"}))
	require.Empty(t, CommonVersion([]string{"0.11.0", "0.11.1"}))
	require.Empty(t, CommonVersion(nil))
}
