package store

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
)

// covers: DB-1, DB-3, DB-4
func TestColumns(t *testing.T) {
	l := known()
	require.Greater(t, len(l.columns), 150)
	require.Less(t, len(l.columns)+len(own), 1600, "PostgreSQL takes no more")
	seen := map[string]string{}
	for _, c := range l.columns {
		require.LessOrEqual(t, len(c.name), longest)
		require.NotContains(t, own, c.name)
		require.Empty(t, seen[c.name], "%s and %s", seen[c.name], c.field.Name)
		seen[c.name] = c.field.Name
	}
	t.Log(len(l.columns))
	require.Equal(t, "cmd_args_max_num_seqs", columnName("cmd_args.max_num_seqs"))
	long := "cmd_args." + string(slices.Repeat([]byte("x"), 80))
	require.Len(t, columnName(long), longest)
	require.NotEqual(t, columnName(long), columnName(long+"y"))
	require.NotEqual(t, l.version, layoutOf([]*field.Field{{Name: "a"}}).version)
	require.Equal(t, "a\uFFFDb\uFFFD", harmless("a\x00b\xff"))
}
