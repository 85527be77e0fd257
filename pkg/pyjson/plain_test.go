package pyjson

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is taken for a number at a glance is one for encoding/json too, with that value.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"0", "12", "0.5", "00", "01.5", ".5", "5.", "", ".", "1e5", "-1", "1_0", "1.2.3",
		"Infinity"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !plain([]byte(s)) {
			return
		}
		require.True(t, json.Valid([]byte(s)), s)
		want, err := strconv.ParseFloat(s, 64)
		got, ok := ParseNumber([]byte(s))
		require.True(t, ok)
		if err == nil {
			require.Equal(t, want, got)
		}
	})
}
