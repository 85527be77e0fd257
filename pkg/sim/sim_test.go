package sim

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/sim/program"
)

// TestMain plays `ray` when started under that name, as cmd/profllm does: `ray start` starts
// itself again.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ray" {
		os.Exit(Main(context.Background(), program.Process{
			Args: os.Args, Env: os.Getenv, Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
		}))
	}
	os.Exit(m.Run())
}

// output is a writer that can be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// A command is a simulated process running in the background.
type command struct {
	out, err output
	code     chan int
	cancel   context.CancelFunc
}

// env merges settings over those that make tests fast.
func env(settings map[string]string) func(string) string {
	all := map[string]string{
		"PROFLLM_SIM_TTFT": "1ms", "PROFLLM_SIM_ITL": "100us", "PROFLLM_SIM_STARTUP": "1ms", "PROFLLM_SIM_TOKENS": "bytes",
		"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": "0",
		"RAY_gcs_rpc_server_reconnect_timeout_s": "0",
	}
	maps.Copy(all, settings)
	return func(name string) string { return all[name] }
}

func start(t testing.TB, settings map[string]string, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{code: make(chan int, 1), cancel: cancel}
	p := program.Process{Args: args, Env: env(settings), Stdout: &c.out, Stderr: &c.err}
	go func() { c.code <- Main(ctx, p) }()
	t.Cleanup(cancel)
	return c
}

// exit stops nothing: it waits for the process's own end.
func (c *command) exit(t testing.TB) int {
	t.Helper()
	code := -1
	await.True(t, func() bool {
		select {
		case code = <-c.code:
			return true
		default:
			return false
		}
	}, "the command ends; stdout:\n%s\nstderr:\n%s", &c.out, &c.err)
	return code
}

func (c *command) await(t testing.TB, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	await.True(t, func() bool {
		found = re.FindStringSubmatch(c.out.String())
		return found != nil
	}, "waiting for %s in:\n%s\n%s", pattern, &c.out, &c.err)
	return found[len(found)-1]
}

// startServe starts a server as the recorded one was started, and returns its URL.
func startServe(t testing.TB, settings map[string]string, flags ...string) string {
	t.Helper()
	_, url := serveCommand(t, settings, flags...)
	return url
}

func serveCommand(t testing.TB, settings map[string]string, flags ...string) (*command, string) {
	t.Helper()
	c := start(t, settings, append([]string{"vllm", "serve", "/models/tiny", "--served-model-name", "tiny",
		"--load-format", "dummy",
		"--max-model-len", "2048", "--max-num-seqs=16", "--block-size", "128", "--port", "0", "--host", "127.0.0.1"}, flags...)...)
	return c, c.await(t, `on (http://\S+)`)
}

func run(t testing.TB, settings map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := start(t, settings, args...)
	code = c.exit(t)
	return code, c.out.String(), c.err.String()
}

func TestMainDispatch(t *testing.T) {
	echo := func(name string, code int) program.Program {
		return func(_ context.Context, args []string, stdout, _ io.Writer) int {
			io.WriteString(stdout, name+":"+strings.Join(args, ","))
			return code
		}
	}
	client := func(ctx context.Context, args []string, _ func() time.Time, stdout, stderr io.Writer) int {
		return echo("bench", 7)(ctx, args, stdout, stderr)
	}
	tests := map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"bench gets its arguments":  {[]string{"vllm", "bench", "serve", "--seed", "1"}, 7, "bench:--seed,1", ""},
		"argv0 with a path":         {[]string{"/opt/bin/vllm", "bench", "serve"}, 7, "bench:", ""},
		"proxy gets its arguments":  {[]string{"python3", "-u", "a/toy_proxy_server.py", "--port", "1"}, 8, "proxy:--port,1", ""},
		"version says simulated":    {[]string{"vllm", "--version"}, 0, "profllm-sim\n", ""},
		"other script":              {[]string{"python3", "train.py"}, 127, "", `"train.py" is not simulated`},
		"no script":                 {[]string{"python3"}, 127, "", "without a script"},
		"other bench":               {[]string{"vllm", "bench", "sweep"}, 2, "", "bench sweep is not simulated: want serve, or bench with serve, latency, throughput, startup or mm-processor"},
		"other program":             {[]string{"dcgmi"}, 127, "", "not simulated"},
		"nothing":                   {nil, 2, "", "no command"},
		"serve without a model":     {[]string{"vllm", "serve", "--port", "1"}, 2, "", "no model"},
		"serve with a config file":  {[]string{"vllm", "serve", "m", "--config", "f.yaml"}, 2, "", "--config is not simulated"},
		"serve with a bad number":   {[]string{"vllm", "serve", "m", "--port", "x"}, 2, "", "--port"},
		"serve with a bad kv role":  {[]string{"vllm", "serve", "m", "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"x"}`}, 2, "", "kv_role"},
		"ray without a command":     {[]string{"ray"}, 2, "", "ray without"},
		"ray start without a role":  {[]string{"ray", "start"}, 2, "", "--head or --address"},
		"evaluation without scheme": {[]string{"python3", "gsm8k_eval.py", "--host", "localhost"}, 2, "", "scheme"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Main(t.Context(), program.Process{
				Args: tt.args, Env: env(nil), Stdout: &out, Stderr: &errs, Bench: client, Proxy: echo("proxy", 8),
			})
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.stdout, out.String())
			require.Contains(t, errs.String(), tt.stderr)
		})
	}
}
