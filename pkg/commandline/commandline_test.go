package commandline

import (
	"strings"
	"testing"
	"time"

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
	Plot   struct {
		Metrics struct {
			VarX string   `placeholder:"COLUMN"`
			Path []string `arg:"" optional:""`
		} `cmd:"" default:"withargs" help:"Metrics."`
		Pareto struct{} `cmd:"" help:"Pareto."`
	} `cmd:""`
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
		{nil, []string{"slurm", "plot"}, false},
		{[]string{"slurm", "s"}, []string{"submit", "status"}, false},
		{[]string{"slurm", "submit", "--w"}, []string{"--wait"}, false},
		{[]string{"slurm", "submit", "--output", "j"}, []string{"json"}, false},
		{[]string{"slurm", "submit", "--output=j"}, []string{"--output=json"}, false},
		{[]string{"slurm", "submit", "--output", "=", "j"}, []string{"json"}, false},
		{[]string{"slurm", "submit", "--system", ""}, nil, true},
		{[]string{"slurm", "submit", "s"}, nil, true},
		{[]string{"slurm", "submit", "s.toml", ""}, nil, false},
		{[]string{"plot", ""}, []string{"metrics", "pareto"}, false},
		{[]string{"plot", "r"}, nil, true},
		{[]string{"plot", "results", "--v"}, []string{"--var-x"}, false},
		{[]string{"plot", "--v"}, []string{"--var-x"}, false},
		{[]string{"plot", "--var-x", "x", ""}, nil, true},
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
		"prog plot metrics: unknown flag --zz\n\thint: prog plot metrics --help":              {"plot", "results", "--zz"},
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

// Values are refused in plain words, and names of other programs lead to ours.
func TestValues(t *testing.T) {
	type options struct {
		Show struct {
			N     *int              `help:"Number."`
			Big   int64             `help:"Number."`
			Share *float64          `type:"percent"`
			Wait  time.Duration     `help:"Time."`
			Limit time.Duration     `type:"limit" default:"30s"`
			Form  string            `enum:"text,json" default:"text" meant:"format"`
			HTML  string            `name:"html" placeholder:"FILE"`
			Set   map[string]string `help:"Pairs."`
			Keys  []string          `help:"Keys."`
			Quiet bool              `help:"Nothing."`
			Plan  string            `arg:"" optional:"" meant:"plan-file"`
		} `cmd:"" meant:"print,list"`
	}
	parse := func(args string) (o options, err error) {
		k, err := kong.New(&o, kong.Name("prog"), Values())
		require.NoError(t, err)
		words := strings.Fields(args)
		if _, err = k.Parse(words); err != nil {
			err = UsageError(k.Model.Node, words, err, "")
		}
		return o, err
	}
	o, err := parse("show --n -3 --big 7 --share -2.5% --wait 90s --form json --set a=b --keys x,y --quiet=false")
	require.NoError(t, err)
	require.Equal(t, -3, *o.Show.N)
	require.InDelta(t, -2.5, *o.Show.Share, 0)
	require.Equal(t, 90*time.Second, o.Show.Wait)
	require.Equal(t, 30*time.Second, o.Show.Limit)
	require.Equal(t, map[string]string{"a": "b"}, o.Show.Set)
	require.Equal(t, []string{"x", "y"}, o.Show.Keys)
	for args, want := range map[string]string{
		"show --n 1.5":                  `--n: must be a whole number, not "1.5"`,
		"show --n":                      "--n: the value is missing",
		"show --n --quiet":              "--n: the value is missing before --quiet",
		"show --big 1e3":                `--big: must be a whole number, not "1e3"`,
		"show --share 2%%":              `--share: must be a number in percent, not "2%%"`,
		"show --wait 5":                 `--wait: must be a duration, such as 30s, 5m or 1h30m, not "5"`,
		"show --limit -3s":              `--limit: must be a duration above 0, such as 30s, 5m or 1h30m, not "-3s"`,
		"show --limit 0":                "--limit: must be a duration above 0",
		"show --form jsn":               "--form: must be text or json, not \"jsn\"\n\thint: did you mean \"json\"?",
		"show --form html":              "--form: must be text or json, not \"html\"\n\thint: use --html FILE",
		"show --format json":            "unknown flag --format\n\thint: did you mean --form?",
		"show --format html":            "unknown flag --format\n\thint: did you mean --html FILE?",
		"show --format=html":            "unknown flag --format\n\thint: did you mean --html FILE?",
		"show --htlm x":                 "unknown flag --htlm\n\thint: did you mean --html?",
		"show --plan-file p.toml":       "unknown flag --plan-file\n\thint: name the plan as the argument: prog show <plan>",
		"show --set a":                  `--set: must be KEY=VALUE, not "a"`,
		"show --keys":                   "--keys: the value is missing",
		"show --quiet=perhaps":          `--quiet: must be true or false, not "perhaps"`,
		"show --n 99999999999999999999": "--n: 99999999999999999999 is out of range",
		"print":                         `hint: did you mean "prog show"?`,
	} {
		_, err := parse(args)
		require.ErrorContains(t, err, want, args)
	}
}
