package render

import (
	"os/exec"
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
