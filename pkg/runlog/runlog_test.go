package runlog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A name means the logs of a step with all its replicas, of one rank, or of one load.
func TestMeans(t *testing.T) {
	for _, c := range []struct {
		log   Log
		name  string
		means bool
	}{
		{Log{Step: "decode"}, "decode", true}, {Log{Step: "decode_1"}, "decode", true}, {Log{Step: "decode_1"}, "decode_1", true},
		{Log{Step: "decode_1"}, "decode_2", false}, {Log{Step: "decode", Rank: 3}, "decode-3", true}, {Log{Step: "decode"}, "decode-3", false},
		{Log{Step: "decoder"}, "decode", false}, {Log{Step: "bench", Below: "warm/"}, "bench", true}, {Log{Step: "bench", Below: "warm/"}, "warm/bench", true},
		{Log{Step: "bench", Below: "../5/"}, "5/bench", true}, {Log{Step: "bench", Below: "../5/"}, "5/bench-0", true},
		{Log{Step: "bench", Below: "../5/"}, "../5/bench", true}, {Log{Step: "bench", Below: "../5/"}, "4/bench", false},
		{Log{Step: "bench", Below: "warm/"}, "hot/bench", false}, {Log{Step: Job}, "job", true},
	} {
		require.Equal(t, c.means, c.log.Means(c.name), "%+v %s", c.log, c.name)
	}
}

// The logs of a run are listed each by rank, the job's own last; packed and plain ones are the
// same log.
func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"logs/serve-10.log", "logs/serve-2.log", "logs/serve-2.log.xz", "logs/empty-0.log",
		"logs/notes.txt", "stderr.txt", "copy-0.log"} {
		text := "x\n"
		if name == "logs/empty-0.log" {
			text = ""
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var labels []string
	for _, l := range List(dir) {
		labels = append(labels, l.Label())
	}
	require.Equal(t, []string{"serve-2", "serve-10", "job"}, labels)
	_, err := Choose(List(dir), "decode")
	require.EqualError(t, err, "no log of \"decode\"\n\thint: known: job, serve")
	_, err = Choose(List(dir), "srve")
	require.EqualError(t, err, "no log of \"srve\"\n\thint: did you mean \"serve\"? known: job, serve")
	require.True(t, MayCome(dir, "decode"), "nobody knows without a plan")

	f := Follower{Dir: dir, Name: "serve-2", Lines: 1}
	var seen []string
	show := func(l Log, lines []string, named bool) error {
		require.False(t, named)
		seen = append(seen, lines...)
		return nil
	}
	require.NoError(t, f.More(false, show))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "logs/serve-2.log"), []byte("x\ny\nz"), 0o644))
	require.NoError(t, f.More(true, show))
	require.Equal(t, []string{"x", "y", "z"}, seen)
	gone := Follower{Dir: dir, Name: "decode"}
	var none *NoLogError
	require.ErrorAs(t, gone.More(true, show), &none)
}
