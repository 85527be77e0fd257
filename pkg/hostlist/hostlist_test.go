package hostlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// covers: C.3, CD-1
func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"node-[001-003,007],x1": "node-001 node-002 node-003 node-007 x1",
		"n[08-10]":              "n08 n09 n10",
		"n[8-10]":               "n8 n9 n10", // Slurm's padding, not CloudAI's
		"":                      "",
		"a, b":                  "a b",
		"gpu-[1-2]x[3-4]-ib":    "gpu-1x3-ib gpu-1x4-ib gpu-2x3-ib gpu-2x4-ib",
		"127.0.1.[1-2]":         "127.0.1.1 127.0.1.2",
		"n2,n1,n2":              "n2 n1 n2",
	} {
		got, err := Expand(list)
		require.NoError(t, err, list)
		require.Equal(t, want, strings.Join(got, " "), list)
	}
}

func TestExpandRefuses(t *testing.T) {
	for _, list := range []string{"n[1-", "n[-1]", "n[3-1]", "n[a]", "n]1", "n[]", "a b", "$(x)", "n[1-999999999]", "n[1-300]x[1-300]"} {
		_, err := Expand(list)
		require.Error(t, err, list)
	}
}

func TestFormat(t *testing.T) {
	for hosts, want := range map[string]string{
		"n1 n2 n3":      "n[1-3]",
		"n3 n1 n2":      "n[3,1-2]",
		"n08 n09 n10":   "n[08-10]",
		"n9 n10 n011":   "n[9-10,011]",
		"a":             "a",
		"n1-ib n2-ib x": "n[1-2]-ib,x",
		"":              "",
	} {
		require.Equal(t, want, Format(strings.Fields(hosts)), hosts)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"n[1-3],n5", "a[01-03]b[1-2]", "x", "n[9-10,011]", "n0000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := Expand(list)
		if err != nil || len(hosts) > 5000 {
			return
		}
		again, err := Expand(Format(hosts))
		require.NoError(t, err, Format(hosts))
		require.Equal(t, hosts, again)
	})
}
