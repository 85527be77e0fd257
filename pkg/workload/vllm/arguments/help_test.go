package arguments

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// helpText has the shapes of vLLM 0.32.0 on Python 3.12, and of Python 3.13, without its sentences.
const helpText = `INFO 11-26 01:02:03 [__init__.py] a line of the log
usage: vllm serve [model_tag] [options]

positional arguments:
  model_tag             What it serves. (default: None)

options:
  --api-server-count API_SERVER_COUNT, -asc API_SERVER_COUNT
                        How many.
                        - Not an option. (default: None)
  --headless            No server. (default: False)
  --max-lora-rank {1,8,16,32,64,128,256,320,512}
                        (default: 16)
  -h, --help            show this help message and exit

Frontend:
  About the group.

  --allow-credentials, --no-allow-credentials
                        (default: True)
  --hf-token [HF_TOKEN]
                        (default: None)
  --host HOST           (default: 0.0.0.0)
  --config-format ['auto', 'hf', 'mistral']
                        (default: auto)
  --collect-detailed-traces {all,model,worker,None} [{all,model,worker,None} ...]
  -q, --quantization QUANTIZATION
  --header [KEY=VALUE ...]
                        (default: a text of
                        several words)
  --pair PAIR PAIR      (default: 0.5)
  --pair PAIR           again
`

// covers: CFG-1
func TestHelp(t *testing.T) {
	list, err := Help(strings.ReplaceAll(helpText, "\n", "\r\n"))
	require.NoError(t, err)
	option := func(name, group string, f Form) Option { return Option{Name: name, Group: group, Forms: []Form{f}} }
	require.Equal(t, []Option{
		option("--api-server-count", "options", Form{Names: []string{"--api-server-count", "-asc"}}),
		option("--headless", "options", Form{Values: "0", Default: false}),
		option("--max-lora-rank", "options", Form{Choices: strings.Fields("1 8 16 32 64 128 256 320 512"), Default: 16.0}),
		option("--allow-credentials", "Frontend", Form{Names: []string{"--allow-credentials", "--no-allow-credentials"}, Values: "0", Default: true}),
		option("--hf-token", "Frontend", Form{Values: "?"}),
		option("--host", "Frontend", Form{Default: "0.0.0.0"}),
		option("--config-format", "Frontend", Form{Default: "auto"}),
		option("--collect-detailed-traces", "Frontend", Form{Values: "+", Choices: []string{"all", "model", "worker"}, Optional: true}),
		option("--quantization", "Frontend", Form{Names: []string{"-q", "--quantization"}}),
		option("--header", "Frontend", Form{Values: "*"}),
		option("--pair", "Frontend", Form{Values: "2", Default: 0.5}),
	}, list)
	for _, text := range []string{"", "options:\n  --x X\n", "usage: vllm\n  nothing\n", "usage: x\n  -h, --help"} {
		_, err := Help(text)
		require.Error(t, err, text)
	}
}

func TestDifferences(t *testing.T) {
	list, err := Help(helpText)
	require.NoError(t, err)
	var changed []Change
	for _, c := range exactly("0.32.0").Differences(list) {
		if c.Kind != "removed" {
			changed = append(changed, c)
		}
	}
	require.Equal(t, []Change{
		{"--allow-credentials", "changed", []string{"default: false → true"}},
		{"--header", "added", nil}, {"--pair", "added", nil},
	}, changed)
}

// A text that looks like a number is printed like one.
func TestDifferencesOfTextsAndNumbers(t *testing.T) {
	list, err := Help("usage: x\n  --random-range-ratio R  (default: 0.0)\n  --metric-percentiles P  (default: 98)\n")
	require.NoError(t, err)
	r, err := BenchServe.One("0.32.0")
	require.NoError(t, err)
	changes := slices.DeleteFunc(r.Differences(list), func(c Change) bool { return c.Kind == "removed" })
	require.Equal(t, []Change{{"--metric-percentiles", "changed", []string{"default: 99 → 98"}}}, changes)
}

// The help of the real vLLM 0.32.0 has what the catalogue has, but for two options whose choices
// depend on the build.
//
// covers: CFG-1
func TestVLLMHelp(t *testing.T) {
	home := realVLLM(t)
	for _, p := range programs {
		r, err := p.One("0.32.0")
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), filepath.Join(home, "venv/bin/vllm"), append(strings.Fields(p.Name)[1:], "--help=all")...)
		cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1")
		text, err := cmd.Output()
		require.NoError(t, err)
		list, err := Help(string(text))
		require.NoError(t, err)
		require.Len(t, list, len(r.load().options))
		for _, c := range r.Differences(list) {
			require.Contains(t, unheard[p], c.Option, "%v", c)
		}
	}
}

func FuzzHelp(f *testing.F) {
	f.Add(helpText)
	for _, s := range []string{"usage: x\n  -", "usage: x\n  --x [", "usage: x\n  --x [ ...]", "usage: x\n  --x {", "usage: x\n  --x {}, -", "usage: \n  --a  b\n:\n", "usage: x\n  --x  (default: )", "usage: x\n  --x\x00"} {
		f.Add(s)
	}
	r := exactly("0.32.0")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Help(text)
		if err != nil {
			return
		}
		for _, o := range list {
			require.True(t, strings.HasPrefix(o.Name, "--"), o.Name)
			require.Len(t, o.Forms, 1)
		}
		build := r.Build(list)
		require.Len(t, reread(t, build), len(build))
	})
}
