package render

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// A word whose commas are quoted is the same word to bash.
func TestQuotedCommas(t *testing.T) {
	for in, want := range map[string]string{
		"a,b":                  "'a,b'",
		`'{"a":1,"b":2}'`:      `'{"a":1,"b":2}'`,
		`"$A",x,"$B"`:          `"$A"','x','"$B"`,
		`'it'\'',s'`:           `'it'\'',s'`,
		`'a'\'','"$A"','\''b'`: `'a'\'','"$A"','\''b'`,
		"plain":                "plain",
	} {
		require.Equal(t, want, quotedCommas(in), in)
	}
}

// Commas that are quoted do not change where a line of an array ends: an option still begins one.
func TestArrayIsBrokenBeforeCommasAreQuoted(t *testing.T) {
	a := wordArray{name: "BOX", words: []token{{"--rm", true}}}
	for range 20 {
		a.words = append(a.words, token{"--mount=type=bind,source=/some/folder", false})
	}
	a.words = append(a.words, token{"-v", false}, token{"/a,b", false})
	for _, line := range strings.Split(array(a), "\n") {
		require.Less(t, len(line), 120, line)
		require.NotContains(t, line+" ", " -v ' ", "an option stays with its value")
	}
	require.Contains(t, array(a), "-v '/a,b'")
}

func FuzzQuotedCommas(f *testing.F) {
	f.Add("a,b", "c'd,")
	f.Add("\\,'", "\",$")
	f.Fuzz(func(t *testing.T, a, b string) {
		w, err := word(plan.Concat(a, plan.Addr("x"), b))
		if err != nil {
			return
		}
		run := func(w string) string {
			out, err := exec.Command("bash", "-c", "X_ADDR=h; printf %s "+w).Output()
			require.NoError(t, err, w)
			return string(out)
		}
		require.Equal(t, run(w), run(quotedCommas(w)), w)
	})
}
