package commandline

import (
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

type program struct {
	Slurm struct {
		Submit struct {
			Wait   bool   `help:"Wait."`
			Output string `enum:"text,json" default:"text"`
			System string `placeholder:"FILE"`
			File   string `arg:""`
		} `cmd:"" help:"Submit."`
		Status struct{} `cmd:"" help:"Show states."`
	} `cmd:""`
	Secret struct{} `cmd:"" hidden:""`
}

func model(t *testing.T) (*kong.Kong, *kong.Node) {
	t.Helper()
	k, err := kong.New(&program{}, kong.Name("prog"))
	require.NoError(t, err)
	return k, k.Model.Node
}

// What may stand at the cursor depends on the command, and on the flag before it.
func TestCandidates(t *testing.T) {
	_, root := model(t)
	for _, c := range []struct {
		words []string
		want  []string
		files bool
	}{
		{nil, []string{"slurm"}, false},
		{[]string{"slurm", "s"}, []string{"submit", "status"}, false},
		{[]string{"slurm", "submit", "--w"}, []string{"--wait"}, false},
		{[]string{"slurm", "submit", "--output", "j"}, []string{"json"}, false},
		{[]string{"slurm", "submit", "--output=j"}, []string{"--output=json"}, false},
		{[]string{"slurm", "submit", "--output", "=", "j"}, []string{"json"}, false},
		{[]string{"slurm", "submit", "--system", ""}, nil, true},
		{[]string{"slurm", "submit", "s"}, nil, true},
		{[]string{"slurm", "submit", "s.toml", ""}, nil, false},
	} {
		list, files := Candidates(root, c.words)
		var have []string
		for _, x := range list {
			have = append(have, x.Word)
		}
		require.Equal(t, c.want, have, "%q", c.words)
		require.Equal(t, c.files, files, "%q", c.words)
	}
}

// A command line that cannot be parsed is told what is wrong with it, and what to type.
func TestUsageError(t *testing.T) {
	k, root := model(t)
	for want, args := range map[string][]string{
		"prog: there is no command \"sumbit\"\n\thint: did you mean \"prog slurm submit\"?":   {"sumbit"},
		"prog: there is no command \"slurm x\"\n\thint: list the commands: prog slurm --help": {"slurm", "x"},
		"prog slurm submit: missing argument <file>\n\thint: prog slurm submit --help":        {"slurm", "submit"},
		"prog: unknown flag --zzzzz\n\thint: prog --help":                                     {"--zzzzz"},
	} {
		_, err := k.Parse(args)
		require.Error(t, err)
		require.EqualError(t, UsageError(root, args, err, ""), want)
	}
	require.Equal(t, []string{"slurm", "--help"}, WithHelp(root, []string{"slurm"}))
	require.Equal(t, []string{"slurm", "status"}, WithHelp(root, []string{"slurm", "status"}))
	require.True(t, LooksLikeJSON([]string{"x", "--output", "json"}))
	require.False(t, LooksLikeJSON([]string{"x", "--output"}))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.NotEmpty(t, Script(shell))
	}
}
