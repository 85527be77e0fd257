package render_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/programtest"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/scheduler/local"
	"github.com/profllm/profllm/templates"
)

// TestMain lets the test binary, started by other names, be the programs that a
// script runs.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case "vllm", "ray", "evaluate":
		if err := record(name); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// record keeps this process' arguments and environment, separated by NULs, and
// then does what the script needs: a server answers every request until it is
// stopped, and Ray is the simulated one.
func record(name string) error {
	dir := os.Getenv("RECORD_DIR")
	f, err := os.CreateTemp(dir, name+"-*.env")
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.Join(os.Environ(), "\x00")); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	argv := strings.TrimSuffix(f.Name(), ".env") + ".argv"
	if err := os.WriteFile(argv, []byte(strings.Join(os.Args[1:], "\x00")), 0o644); err != nil {
		return err
	}
	switch {
	case name == "ray":
		args := []string{"ray"}
		for _, a := range os.Args[1:] {
			if !strings.HasPrefix(a, "--hostile") {
				args = append(args, a)
			}
		}
		return syscall.Exec(os.Getenv("RECORD_PROFLLM"), args, os.Environ())
	case name == "vllm" && os.Args[1] == "serve":
		l, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("VLLM_HOST_IP"), after(os.Args, "--port")))
		if err != nil {
			return err
		}
		return http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	return nil
}

// after returns the argument behind the last one that is name.
func after(argv []string, name string) string {
	for i := len(argv) - 2; i >= 0; i-- {
		if argv[i] == name {
			return argv[i+1]
		}
	}
	return ""
}

// process is what one recorded process was given.
type process struct {
	argv []string
	env  map[string]string
}

// recorded returns the processes of a program whose first argument is verb, ""
// for any.
func recorded(t *testing.T, dir, name, verb string) []process {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, name+"-*.argv"))
	require.NoError(t, err)
	var list []process
	for _, file := range files {
		p := process{argv: strings.Split(string(read(t, file)), "\x00"), env: map[string]string{}}
		for _, kv := range strings.Split(string(read(t, strings.TrimSuffix(file, ".argv")+".env")), "\x00") {
			k, v, _ := strings.Cut(kv, "=")
			p.env[k] = v
		}
		if verb == "" || p.argv[0] == verb {
			list = append(list, p)
		}
	}
	return list
}

// toml writes s as a TOML string.
func toml(t *testing.T, s string) string {
	t.Helper()
	data, err := json.Marshal(s) // JSON's escapes are TOML's
	require.NoError(t, err)
	return strings.ReplaceAll(string(data), "\x7f", `\u007f`)
}

func tomlList(t *testing.T, list []string) string {
	t.Helper()
	items := make([]string, len(list))
	for i, s := range list {
		items[i] = toml(t, s)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// inToml are the hostile values that a TOML file can hold. A text in single
// quotes is left out: the engine's options give it without them, for CloudAI's
// users had to write them.
func inToml() []string {
	var list []string
	for _, s := range hostile {
		if utf8.ValidString(s) && (len(s) < 2 || s[0] != '\'' || s[len(s)-1] != '\'') {
			list = append(list, s)
		}
	}
	return list
}

// Values that a shell, Slurm's options or our own command line could take for
// something else are run for real, on this machine: every one arrives as one
// argument or one variable, byte for byte, and nothing is executed.
//
// covers: CD-9, CD-17, CD-19, CD-20, CTR-12
func TestHostileValuesAreInert(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs three jobs")
	}
	binary, err := programtest.Build(t.TempDir(), os.Getenv)
	require.NoError(t, err)
	for _, c := range []struct {
		name, model string
		nodes       int
		args        string // more of cmd_args
		role        string // that serves
		servers     int
	}{
		{"aggregated", "org/na me'\"$(touch x)`touch x`;touch x\n--é", 1, "[Tests.cmd_args.decode]\n", "serve", 1},
		{"disaggregated", "-rf", 1, "[Tests.cmd_args.prefill]\n[Tests.cmd_args.decode]\n", "decode", 2},
		{"ray", "--help", 2, "[Tests.cmd_args.decode]\nray_head = { hostile = \"a,b 'c' $(touch x)\\n\" }\nray_worker = { hostile = \"; touch x, y\" }\n", "serve", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := inToml()
			extra := "served_model_name = " + tomlList(t, values) + "\ntext = " + toml(t, c.model) +
				"\nempty = \"\"\noff = false\ntable = { " + toml(t, "k '$(touch x)") + " = " +
				toml(t, "v\n\"'`touch x`") + " }\n"
			var env strings.Builder
			for i, v := range values {
				fmt.Fprintf(&env, "HOSTILE_%d = %s\n", i, toml(t, v))
			}
			w := world(t, binary, "[global_env_vars]\nHOSTILE_SITE = "+toml(t, c.model)+"\n", fmt.Sprintf(`
num_nodes = %d
dse_excluded_args = ["cmd_args.decode.served_model_name", "bench_cmd_args.hostile"]
[Tests.cmd_args]
unchecked_options = "served_model_name, text, empty, off, table, hostile, hostile_text, hostile_off"
model = %s
%s%s
[Tests.bench_cmd_args]
hostile = %s
hostile_text = %s
hostile_off = false
[Tests.semantic_eval_cmd_args]
entrypoint = %s
cli = %s
[Tests.extra_env_vars]
%s`, c.nodes, toml(t, c.model), c.args, extra, tomlList(t, values), toml(t, c.model),
				toml(t, `evaluate 'a b' "c'd" $(touch x) ; touch x`),
				toml(t, `--host {host} '{output_path}/y z' {model} -- '' {nothing}`), env.String()))

			place := w.run(t)
			serve := recorded(t, w.records, "vllm", "serve")
			require.Len(t, serve, c.servers)
			for _, p := range serve {
				require.Equal(t, c.model, p.argv[1])
				if p.env["PROFLLM_ROLE"] != c.role {
					continue // prefill has no options of its own here
				}
				require.Equal(t, strconv.Itoa(place.Ports[c.role]), after(p.argv, "--port"))
				require.Subset(t, p.argv, []string{"--empty", "--no-off"})
				require.Equal(t, `{"k '$(touch x)":"v\n\"'`+"`touch x`"+`"}`, after(p.argv, "--table"))
				require.Equal(t, values, following(t, p.argv, "--served-model-name", len(values)))
				require.Equal(t, c.model, following(t, p.argv, "--text", 1)[0])
			}
			bench := recorded(t, w.records, "vllm", "bench")
			require.Len(t, bench, 1)
			require.Equal(t, values, following(t, bench[0].argv, "--hostile", len(values)))
			require.Equal(t, c.model, following(t, bench[0].argv, "--hostile-text", 1)[0])
			require.Equal(t, c.model, following(t, bench[0].argv, "--model", 1)[0])
			require.Contains(t, bench[0].argv, "--no-hostile-off")
			eval := recorded(t, w.records, "evaluate", "")
			require.Len(t, eval, 1)
			addr := place.Nodes[0].Addr
			require.Equal(t, []string{"a b", "c'd", "$(touch", "x)", ";", "touch", "x", "--host", "http://" + addr,
				w.plan.Dir + "/raw/y z", c.model, "--", "", "{nothing}"}, eval[0].argv)
			require.Contains(t, bench[0].argv, "http://"+addr+":"+strconv.Itoa(place.Ports[w.plan.Ports[0].Name]))

			for _, p := range append(append(serve, bench...), eval...) {
				require.Equal(t, c.model, p.env["HOSTILE_SITE"])
				for i, v := range values {
					got, ok := p.env[fmt.Sprintf("HOSTILE_%d", i)]
					require.True(t, ok && got == v, "HOSTILE_%d is %q, not %q", i, got, v)
				}
			}
			if c.name == "ray" {
				var starts []string
				for _, p := range recorded(t, w.records, "ray", "start") {
					for _, a := range p.argv {
						if v, ok := strings.CutPrefix(a, "--hostile="); ok {
							starts = append(starts, v)
						}
					}
				}
				require.ElementsMatch(t, []string{"a,b 'c' $(touch x)\n", "; touch x, y"}, starts)
			}
			w.nothingTouched(t)
		})
	}
}

// following returns the n arguments behind the one that is name and stands once.
func following(t *testing.T, argv []string, name string, n int) []string {
	t.Helper()
	for i, a := range argv {
		if a == name && i+n < len(argv) {
			return argv[i+1 : i+1+n]
		}
	}
	t.Fatalf("no %s with %d arguments in %q", name, n, argv)
	return nil
}

// theWorld is one planned run in a folder of its own, and programs that record.
type theWorld struct {
	dir, records, binary string
	plan                 *plan.Plan
	environ              []string
}

func world(t *testing.T, binary, site, test string) *theWorld {
	t.Helper()
	dir := t.TempDir()
	w := &theWorld{dir: dir, records: filepath.Join(dir, "records"), binary: binary}
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{w.records, bin, filepath.Join(dir, "jobs")} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"vllm", "ray", "evaluate"} {
		require.NoError(t, os.Symlink(self, filepath.Join(bin, name)))
	}
	w.environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "RECORD_DIR=" + w.records,
		"RECORD_PROFLLM=" + binary}

	sys, err := config.Parse("site.toml", []byte(`name = "s"
scheduler = "slurm"
output_path = "results"
install_path = "install"
default_partition = "p"
gpus_per_node = 2
export = ["RECORD_DIR", "RECORD_PROFLLM"]
launcher = "bare"
extra_srun_args = ["--hostile=$(touch x) 'a' ; touch x\n"]
`+site))
	require.NoError(t, err)
	s, err := scenario.Load(scenario.File{Name: "hostile.toml",
		Data: []byte("name = \"hostile\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n" +
			"name = " + toml(t, "a'b\"$(touch x)\n;touch x") + "\n" + test)}, nil, scenario.HookFiles{})
	require.NoError(t, err)
	o := planner.Options{Version: "v0", Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Output: filepath.Join(dir, "results"), Binary: binary, WorkDir: dir}
	set, err := planner.Plans(s, sys, o)
	require.NoError(t, err)
	plans := set.Plans
	require.Len(t, plans, 1)
	w.plan = plans[0]
	script, err := render.Script(w.plan, templates.FS)
	require.NoError(t, err)
	require.NoError(t, run.Create(planner.Root(s, o), run.Scenario{Name: s.Name, PID: os.Getpid()},
		[]run.Printed{{Plan: w.plan, Script: script}}, nil))
	return w
}

// run runs the job to its end and returns where it ran.
func (w *theWorld) run(t *testing.T) run.Placement {
	t.Helper()
	ctx := t.Context()
	sched := local.New(filepath.Join(w.dir, "jobs"), w.binary, w.environ, time.Now)
	sub, err := sched.Submit(ctx,
		run.Request{Script: filepath.Join(w.plan.Dir, run.ScriptFile), Name: w.plan.Job.Name,
			Comment: w.plan.Job.Comment, Dir: w.plan.Dir, Export: run.Export{Names: w.plan.Job.Export}})
	require.NoError(t, err)
	_, err = sched.Wait(ctx, sub.JobID)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"stdout.txt", "stderr.txt"} {
				data, _ := os.ReadFile(filepath.Join(w.plan.Dir, name))
				t.Logf("%s:\n%s", name, data)
			}
		}
	})
	var end run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(w.plan.Dir, run.SentinelFile), &end))
	require.Equal(t, []run.Phase{{Name: "ready"}, {Name: "bench"}, {Name: "eval"}}, end.Phases,
		"every phase ended with 0")
	var place run.Placement
	require.NoError(t, run.ReadJSON(filepath.Join(w.plan.Dir, run.PlacementFile), &place))
	return place
}

// nothingTouched looks for the file that hostile values try to make.
func (w *theWorld) nothingTouched(t *testing.T) {
	t.Helper()
	require.NoFileExists(t, "x")
	require.NoError(t, filepath.WalkDir(w.dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "x" {
			t.Errorf("%s was made by a value that a shell ran", name)
		}
		return err
	}))
}
