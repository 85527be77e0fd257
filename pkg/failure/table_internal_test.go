package failure

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/tier"
)

// covers: PL-F10
func TestBuiltinTableKeepsItsRules(t *testing.T) {
	signatures, benign, err := builtin()
	require.NoError(t, err)
	require.Greater(t, len(signatures), 160)
	require.Len(t, benign, 36)
	tab, err := compile(signatures, len(signatures))
	require.NoError(t, err)
	require.NoError(t, tab.check(len(signatures), benign))
	for _, s := range signatures {
		require.NotEmpty(t, s.Next, s.ID)
		require.NotEmpty(t, s.Source, s.ID)
	}
	require.Empty(t, tab.always, "every built-in signature has a literal to look for")
}

// The filter must never hide a line that a pattern matches.
func TestFilterFindsEverySample(t *testing.T) {
	tab, err := Builtin()
	require.NoError(t, err)
	for i, e := range tab.entries {
		for _, line := range []string{e.Sample, strings.Repeat("x ", 100) + e.Sample} {
			found := make([]bool, len(tab.entries)+markers)
			tab.filter.all([]byte(line), found)
			if e.re.MatchString(line) {
				require.True(t, found[i], "%s in %.80q", e.ID, line)
				require.Positive(t, tab.filter.find([]byte(line), 0))
			}
		}
	}
}

func TestRequired(t *testing.T) {
	for pattern, want := range map[string][]string{
		`CUDA out of memory`:                    {"cuda out of memory"},
		`(?i:exec format error)`:                {"exec format error"},
		`abc\d+defg`:                            {"defg"},
		`(?:alpha|beta) x?`:                     {"alpha", "beta"},
		`(?:alpha|b?) `:                         nil,
		`(?:EADDRINUSE)+`:                       {"eaddrinuse"},
		`(?:word){2,3}`:                         {"wordword"},
		`" 50[0-2]`:                             {`" 500`, `" 501`, `" 502`},
		`"POST \S+ HTTP/[\d.]+" 50[01]\b`:       {`" 500`, `" 501`}, // not what every log is full of
		`(?:word)?`:                             nil,
		`.*`:                                    nil,
		`ab`:                                    nil,
		`\[Errno 98\]|ZMQError: Address in use`: {"[errno 98]", "zmqerror: address in use"},
	} {
		require.Equal(t, want, required(pattern), pattern)
	}
}

func FuzzFilter(f *testing.F) {
	tier.Alone(f)
	tab, err := Builtin()
	require.NoError(f, err)
	for _, e := range tab.entries {
		f.Add(e.Sample)
	}
	f.Fuzz(func(t *testing.T, line string) {
		found := make([]bool, len(tab.entries)+markers)
		tab.filter.all([]byte(line), found)
		for i, e := range tab.entries {
			if e.re.MatchString(line) {
				require.True(t, found[i], "%s in %q", e.ID, line)
			}
		}
		require.Equal(t, slices.Contains(found, true), tab.filter.find([]byte(line), 0) >= 0)
	})
}

// covers: PL-F9
func TestSiteSignatures(t *testing.T) {
	ours := Signature{ID: "site-lustre", Area: "filesystem", Kind: Root, Regex: `LustreError: \d+`,
		Sample: "LustreError: 11-0", Role: "any", Next: "call us"}
	_, err := With([]Signature{ours})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		change func(*Signature)
		want   string
	}{
		"sample":  {func(s *Signature) { s.Sample = "nothing" }, "does not match its sample"},
		"pattern": {func(s *Signature) { s.Regex = "(" }, "missing closing"},
		"kind":    {func(s *Signature) { s.Kind = "cause" }, `unknown kind "cause"`},
		"id":      {func(s *Signature) { s.ID = "cuda-oom" }, "twice"},
		"place":   {func(s *Signature) { s.ID, s.Where = "cuda-oom", "site.toml:3:1" }, `site.toml:3:1: signature "cuda-oom": another signature, built in or of the site, has this id`},
		"role":    {func(s *Signature) { s.Role = "server/gpu" }, `unknown role "gpu"; known: any, client`},
		"no id":   {func(s *Signature) { s.ID = "" }, "no id"},
		"benign":  {func(s *Signature) { s.Regex, s.Sample = "Failed requests:", "Failed requests: 3" }, "is not a failure"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ours
			tt.change(&s)
			_, err := With([]Signature{s})
			require.ErrorContains(t, err, tt.want)
		})
	}
	second := ours
	second.ID = "site-lustre-2"
	_, err = With([]Signature{ours, second})
	require.ErrorContains(t, err, `"site-lustre" comes before it and matches its sample`)
}

// BenchmarkEveryPattern is what the filter saves: every pattern on every
// line of 1 MiB.
func BenchmarkEveryPattern(b *testing.B) {
	tab, err := Builtin()
	require.NoError(b, err)
	line := "INFO:     127.0.0.1:34302 - \"POST /v1/completions HTTP/1.1\" 200 OK"
	n := 1 << 20 / len(line)
	b.SetBytes(1 << 20)
	for b.Loop() {
		for range n {
			tab.first(line)
		}
	}
}

// A site's table is refused with complaints, or it works.
func FuzzWith(f *testing.F) {
	f.Add("site-lustre", "root", `LustreError: \d+`, "LustreError: 11-0", "any")
	f.Add("", "x", "(", "", "gpu/")
	f.Add("a", "tail", ".*", "x", "job/client")
	f.Fuzz(func(t *testing.T, id, kind, regex, sample, role string) {
		tab, err := With([]Signature{{ID: id, Area: "site", Kind: Kind(kind), Regex: regex, Sample: sample, Role: role,
			Next: "n"}})
		if err == nil {
			require.Zero(t, tab.first(sample))
		}
	})
}

// reference is the same as sequence, written as a pattern.
var reference = regexp.MustCompile("\x1b(?:\\[[ -?]*[@-~]|\\][^\x07\n]*\x07|[@-Z\\\\^_])")

func TestStripANSI(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "": "", "\x1b": "\x1b", "a\x1b[31mb\x1b[0m": "ab", "\x1b[1;31": "\x1b[1;31", "\x1b]0;title\x07x": "x",
		"\x1b\x1b[mx": "\x1bx", "x\x1bMy": "xy", "\x1b[36m(Foo pid=1)\x1b[0m line\n": "(Foo pid=1) line\n", "\x1b]0;no end\n": "\x1b]0;no end\n",
	} {
		require.Equal(t, want, string(stripANSI([]byte(in))), "%q", in)
	}
}

func FuzzStripANSI(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\x1b[0m\x1b]0;t\x07\x1b\x1b[m"))
	f.Fuzz(func(t *testing.T, text []byte) {
		want := reference.ReplaceAll(text, nil)
		require.Equal(t, string(want), string(stripANSI(slices.Clone(text))))
	})
}

// covers: PL-F6
func TestNoSignatureNeedsAWholeLine(t *testing.T) {
	signatures, _, err := builtin()
	require.NoError(t, err)
	for _, s := range signatures {
		require.False(t, strings.HasPrefix(s.Regex, "^") || strings.HasSuffix(s.Regex, "$"),
			"%s: writers can share a line", s.ID)
	}
}

// BenchmarkBuiltin is what a program pays that looks for causes: reading the table and building its filter.
func BenchmarkBuiltin(b *testing.B) {
	for b.Loop() {
		signatures, _, err := builtin()
		require.NoError(b, err)
		_, err = compile(signatures, 0)
		require.NoError(b, err)
	}
}
