package arguments

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

// forkTable says how a fork differs.
const forkTable = `dtype = { choices = "auto, nvfp4" }
enforce_eager = false
fork_level = { type = "int" }
fork_names = { values = "+", names = "--fork-names, -fn" }
max_num_seqs = { values = "2" }
"tokenizer-mode" = {}
`

func fork(t *testing.T) []Difference {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(forkTable))
	require.NoError(t, err)
	list, err := ReadDifferences(table)
	require.NoError(t, err)
	return list
}

// A build takes what its table says, in every release, and everything else as the release does.
//
// covers: CFG-1, CFG-3
func TestWith(t *testing.T) {
	p := Serve.With(fork(t))
	for _, version := range []string{"0.32.0", "0.10", "", Nightly} {
		for _, words := range []string{"--dtype nvfp4", "--fork-level 3", "--fork-names a b", "-fn a", "--max-num-seqs 1 2",
			"--tokenizer-mode slow", "--max-model-len 100"} {
			_, refusal := p.Check(version, strings.Fields(words)[0], strings.Fields(words)[1:]...)
			require.Nil(t, refusal, "%s %s", version, words)
		}
		for words, says := range map[string]string{
			"--dtype half": "invalid choice: 'half'", "--fork-level x": "invalid int value", "--fork-names": "expected at least one argument",
			"--max-num-seqs 1": "expected 2 arguments", "--max-num-seqs 1 x": "--max-num-seqs", "--max-model-len many": "--max-model-len",
			"--enforce-eager": "unrecognized arguments: --enforce-eager",
		} {
			_, refusal := p.Check(version, strings.Fields(words)[0], strings.Fields(words)[1:]...)
			require.NotNil(t, refusal, "%s %s", version, words)
			require.Contains(t, refusal.Words, says)
			require.False(t, refusal.Unknown)
			if words == "--enforce-eager" {
				require.Contains(t, refusal.Hint, "lacks it")
			}
		}
	}
	require.Contains(t, p.Names(), "fork_level")
	require.NotContains(t, Serve.Names(), "fork_level")
	_, refusal := Serve.Check("0.32.0", "--dtype", "half")
	require.Nil(t, refusal, "the catalogue stays as it is")
}

func TestReadDifferencesRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"x = true":                  "",
		"x = 3":                     "t.toml:1:1: x must be a table or false",
		"x = { values = \"many\" }": "a number of values is",
		"x = { type = \"imt\" }":    "unknown type \"imt\"",
		"x = { kind = \"int\" }":    "kind",
	} {
		table, err := source.Parse("t.toml", []byte(text))
		require.NoError(t, err)
		if _, err = ReadDifferences(table); says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}

// What is written of a help is read again as it was.
func TestBuildOfAHelp(t *testing.T) {
	list, err := Help(helpText)
	require.NoError(t, err)
	all := exactly("0.32.0").Build(list)
	again := reread(t, all)
	require.Equal(t, all, again)
	has := slices.DeleteFunc(all, func(d Difference) bool { return d.Lacks })
	require.Equal(t, []Difference{{Option: "--header", Form: Form{Values: "*"}}, {Option: "--pair", Form: Form{Values: "2"}}}, has)
	require.Equal(t, []string{"header = { values = \"*\" }", "pair = { values = \"2\" }"}, []string{has[0].TOML(), has[1].TOML()})
}

func reread(t *testing.T, list []Difference) []Difference {
	t.Helper()
	var text strings.Builder
	for _, d := range list {
		text.WriteString(d.TOML() + "\n")
	}
	table, err := source.Parse("t.toml", []byte(text.String()))
	require.NoError(t, err, text.String())
	again, err := ReadDifferences(table)
	require.NoError(t, err)
	return again
}
