package render_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/templates"
)

// sample is a small plan: one server, one client.
func sample() *plan.Plan {
	one := plan.Slice{Count: 1}
	return &plan.Plan{
		Schema: plan.Schema, RunID: "exp_1", Version: "v1", Scenario: "s", Test: "a", Dir: "/out/s/a/0",
		Binary: "/bin/profllm",
		Job:    plan.Job{Name: "a.exp_1", Comment: "profllm:exp_1", Nodes: 1},
		Ports:  []plan.Port{{Name: "serve", Base: 8300, Step: 1, Count: 1, Role: "serve"}},
		Roles: []plan.Role{{Name: "serve", Nodes: one, GPUs: []int{0},
			Health: plan.Endpoint{Port: "serve", Path: "/health"},
			Step: plan.Step{Name: "serve", Nodes: one, Argv: plan.Texts("vllm", "serve", "m"),
				Log: "logs/serve-%t.log"}}},
		Loads: []plan.Load{{RunID: "exp_1", Dir: "/out/s/a/0", Client: "vllm-serve",
			Clients: []plan.Step{{Name: "bench", Nodes: one, Argv: plan.Texts("vllm", "bench"),
				Log: "logs/bench-%t.log"}}}},
	}
}

func rendered(t *testing.T, p *plan.Plan, layers ...fs.FS) string {
	t.Helper()
	text, err := render.Script(p, append(layers, templates.FS)...)
	require.NoError(t, err)
	return string(text)
}

func directives(script string) []string {
	var list []string
	for _, line := range strings.Split(script, "\n") {
		if d, ok := strings.CutPrefix(line, "#SBATCH "); ok {
			list = append(list, d)
		}
	}
	return list
}

// covers: SIG-2
func TestDirectives(t *testing.T) {
	p := sample()
	p.Job = plan.Job{
		Name: "a.exp_1", Comment: "profllm:exp_1", Nodes: 2, NodeList: []string{"n1", "n2"}, Partition: "gpu",
		Account: "acc", QOS: "high",
		Reservation: "r", Constraint: "[(a100&ib)*1|h100!x]", Distribution: "block:cyclic", Exclusive: true,
		GPUsPerNode: 8, NTasksPerNode: 4,
		TimeLimit: plan.Seconds(25 * time.Hour), Grace: plan.Seconds(90 * time.Second),
		SbatchArgs: []string{"--mail-type=END", "-H", `--comment "a b" # c`},
	}
	require.Equal(t, []string{
		"--job-name=a.exp_1", "--comment=profllm:exp_1", "--output=/out/s/a/0/stdout.txt",
		"--error=/out/s/a/0/stderr.txt", "--open-mode=append", "--partition=gpu", "--account=acc", "--qos=high",
		"--reservation=r", "--constraint=[(a100&ib)*1|h100!x]", "--distribution=block:cyclic", "--nodes=2",
		"--nodelist=n1,n2", "--gres=gpu:8", "--ntasks-per-node=4", "--exclusive", "--time=1-01:00:00",
		"--signal=B:TERM@90",
		"--mail-type=END", "-H", `--comment "a b" # c`,
	}, directives(rendered(t, p)))

	p = sample()
	p.Job.Exclude = []string{"n[1-3]", "x9"}
	require.Equal(t, []string{
		"--job-name=a.exp_1", "--comment=profllm:exp_1", "--output=/out/s/a/0/stdout.txt",
		"--error=/out/s/a/0/stderr.txt", "--open-mode=append",
		"--nodes=1", "--exclude=n[1-3],x9",
	}, directives(rendered(t, p)), "what is not set is not asked for")
}

// A newline would begin another line, a space another option, a quote would
// hide the rest, # would begin a comment: no value of a directive may hold them.
//
// covers: CD-20
func TestDirectivesCannotBeInjected(t *testing.T) {
	fields := map[string]func(*plan.Plan, string){
		"job name": func(p *plan.Plan, s string) { p.Job.Name = s }, "comment": func(p *plan.Plan, s string) { p.Job.Comment = s },
		"dir": func(p *plan.Plan, s string) { p.Dir = "/" + s }, "partition": func(p *plan.Plan, s string) { p.Job.Partition = s },
		"account": func(p *plan.Plan, s string) { p.Job.Account = s }, "qos": func(p *plan.Plan, s string) { p.Job.QOS = s },
		"reservation": func(p *plan.Plan, s string) { p.Job.Reservation = s }, "constraint": func(p *plan.Plan, s string) { p.Job.Constraint = s },
		"distribution": func(p *plan.Plan, s string) { p.Job.Distribution = s }, "nodelist": func(p *plan.Plan, s string) { p.Job.NodeList = []string{"n1", s} },
		"exclude": func(p *plan.Plan, s string) { p.Job.Exclude = []string{s} },
	}
	for name, set := range fields {
		for _, value := range []string{
			"a\n#SBATCH --nodes=99", "a\ntouch x", "a\r", "a --nodes=99", "a\t--nodes=99",
			`a"b`, "a'b", "a#b", `a\b`, "a;b", "a$b", "a`b", "a>b", "é", "a\x00", "a\xff", "a\u2028b", "\n",
		} {
			p := sample()
			set(p, value)
			_, err := render.Script(p, templates.FS)
			require.ErrorContains(t, err, "the value may hold", "%s = %q", name, value)
		}
		p := sample()
		set(p, "a.B_1,2:3=4+5/6@7-8[9]")
		require.NotEmpty(t, rendered(t, p), name)
	}
	for _, line := range []string{"", " --a", "a", "nodes=99", "-", "--", "-9", "--a\n#SBATCH --b", "--a\ntouch x",
		"--a\r", "--a\x00", "--aé", "\n--a"} {
		p := sample()
		p.Job.SbatchArgs = []string{line}
		_, err := render.Script(p, templates.FS)
		require.ErrorContains(t, err, "must be one option in printable ASCII", "%q", line)
	}
}

// Names stand bare in comments and options: a scenario file cannot make them
// hostile, and neither can a plan.json that somebody wrote by hand.
func TestNamesCannotBreakOut(t *testing.T) {
	fields := map[string]func(*plan.Plan, string){
		"scenario": func(p *plan.Plan, s string) { p.Scenario = s }, "test": func(p *plan.Plan, s string) { p.Test = s },
		"run ID": func(p *plan.Plan, s string) { p.RunID = s }, "version": func(p *plan.Plan, s string) { p.Version = s },
		"role":      func(p *plan.Plan, s string) { p.Roles[0].Name = s },
		"role step": func(p *plan.Plan, s string) { p.Roles[0].Step.Name = s }, "client": func(p *plan.Plan, s string) { p.Loads[0].Clients[0].Name = s },
		"log": func(p *plan.Plan, s string) { p.Roles[0].Step.Log = s }, "port": func(p *plan.Plan, s string) { p.Ports[0].Name = s },
		"variable":      func(p *plan.Plan, s string) { p.Env = []plan.Var{{Name: s}} },
		"step variable": func(p *plan.Plan, s string) { p.Loads[0].Clients[0].Env = []plan.Var{{Name: s}} },
	}
	for name, set := range fields {
		for _, value := range []string{"a\ntouch x", "\n", "a\r", "é\n", "a\x00", "a\u0085b"} {
			p := sample()
			set(p, value)
			_, err := render.Script(p, templates.FS)
			require.ErrorContains(t, err, "does not match", "%s = %q", name, value)
		}
		if name == "version" {
			continue // a comment holds any one line
		}
		for _, value := range []string{"", "a b", "a;b", "$(touch x)", "`x`", `a"b`, "a'b", "a&b", "a|b", "-x"} {
			p := sample()
			set(p, value)
			_, err := render.Script(p, templates.FS)
			require.ErrorContains(t, err, "does not match", "%s = %q", name, value)
		}
	}
	p := sample()
	p.Dir = "/out/%j"
	_, err := render.Script(p, templates.FS)
	require.ErrorContains(t, err, `the run directory "/out/%j" holds a %, which Slurm expands`)
}

// A health path is free text, and stands in a comment.
func TestSummaryIsOneLine(t *testing.T) {
	plain := statements(t, rendered(t, sample()))
	for _, path := range []string{"/h\ntouch x", "/h\r\ntouch x", "/h\vtouch x", "/h\u0085touch x", "/h\u2028touch x",
		"/$(touch x)", "/h \\", "/h;touch x", "/'", `/"`, "/`x"} {
		p := sample()
		p.Roles[0].Health.Path = path
		script := rendered(t, p)
		require.Equal(t, plain, statements(t, script), "%q adds a statement", path)
		require.NotRegexp(t, regexp.MustCompile(`(?m)^\s*touch`), script)
	}
	p := sample()
	p.Roles[0].Health.Path = "/h\x00"
	_, err := render.Script(p, templates.FS)
	require.ErrorContains(t, err, "the script holds a NUL byte or a DOS line end")
}

// statements prints a script without its comments.
func statements(t *testing.T, script string) string {
	t.Helper()
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "job.sh")
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, syntax.NewPrinter(syntax.Minify(true)).Print(&b, f))
	return b.String()
}

func TestEnvironmentIsPrinted(t *testing.T) {
	p := sample()
	p.Env = []plan.Var{
		{Name: "A", Value: plan.Text("x y'$(touch x)")}, {Name: "EMPTY", Value: plan.Text("")},
		{Name: "SHELL_TEXT", Value: plan.Word{{Shell: "$(hostname) a"}}},
	}
	require.Contains(t, rendered(t, p), `
export A='x y'\''$(touch x)'
export EMPTY=''
export SHELL_TEXT="$(hostname) a"
`)
	p.Env = []plan.Var{{Name: "A", Value: plan.Text("a\x00")}}
	_, err := render.Script(p, templates.FS)
	require.ErrorContains(t, err, `"a\x00" holds a NUL byte`)
	p.Env = []plan.Var{{Name: "A", Value: plan.Word{{Shell: `" (`}}}}
	_, err = render.Script(p, templates.FS)
	require.ErrorContains(t, err, "the script does not parse")
}

// A secret stands in a step's own list of them only: anywhere else it would be in a
// list of processes, or in the environment of the whole job.
//
// covers: PL-D10 (argv)
func TestSecretsAreNoArguments(t *testing.T) {
	for _, part := range []plan.Part{{Env: "HF_TOKEN"}, {File: "/s"}, {Shell: "$HF_TOKEN"}} {
		for name, set := range map[string]func(*plan.Plan, plan.Word){
			"argument": func(p *plan.Plan, w plan.Word) { p.Loads[0].Clients[0].Argv = append(p.Loads[0].Clients[0].Argv, w) },
			"variable": func(p *plan.Plan, w plan.Word) { p.Loads[0].Clients[0].Env = []plan.Var{{Name: "A", Value: w}} },
			"launcher": func(p *plan.Plan, w plan.Word) { p.Roles[0].Step.Srun = []plan.Word{w} },
			"mixed":    func(p *plan.Plan, w plan.Word) { p.Env = []plan.Var{{Name: "A", Value: plan.Concat("x", w)}} },
			"the job":  func(p *plan.Plan, w plan.Word) { p.Env = []plan.Var{{Name: "A", Value: w}} },
		} {
			if part.Shell != "" && name == "the job" {
				continue
			}
			p := sample()
			set(p, plan.Word{part})
			_, err := render.Script(p, templates.FS)
			if part.Shell == "" {
				require.ErrorContains(t, err, "is a secret, which only a step's list of secrets may name", name)
				continue
			}
			require.ErrorContains(t, err, "may stand in the job's environment only", name)
		}
	}
}

// The step's own process reads its secrets, outside of the container that profllm
// starts and inside of one that srun's plugin starts.
//
// covers: PL-D10 (script)
func TestSecretsArePrinted(t *testing.T) {
	p := sample()
	p.Roles[0].Step.Secrets = []plan.Secret{{Name: "HF_TOKEN", Env: "MY_TOKEN"}, {Name: "FILE", File: "-f 'x"}}
	p.Roles[0].Step.Env = []plan.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text("0")}}
	require.Contains(t, rendered(t, p),
		`"$PROFLLM" job exec --run "$RUN" --env=HF_TOKEN=MY_TOKEN '--file=FILE=-f '\''x' -- \
  env CUDA_VISIBLE_DEVICES=0`)
	p.Job.Export = []string{"A", "ALL"}
	require.Contains(t, rendered(t, p),
		"\n# Of the shell that submits, the job gets besides the usual variables: A ALL\n\nRUN=")
	p.Job.Export = []string{"A\ntouch x"}
	_, err := render.Script(p, templates.FS)
	require.ErrorContains(t, err, `exported variable "A\ntouch x" does not match`)
	p.Job.Export = nil
	for want, secret := range map[string]plan.Secret{
		`secret "A B" does not match`:              {Name: "A B", Env: "X"},
		`secret's variable "$(touch x)"`:           {Name: "A", Env: "$(touch x)"},
		"secret A has both a variable and a file":  {Name: "A", Env: "X", File: "/x"},
		"A has both a variable and a file, or nei": {Name: "A"},
		`"--file=A=/x\x00" holds a NUL byte`:       {Name: "A", File: "/x\x00"},
	} {
		p.Roles[0].Step.Secrets = []plan.Secret{secret}
		_, err := render.Script(p, templates.FS)
		require.ErrorContains(t, err, want)
	}
}

// Exported by the user, such a name would change what the script does.
func TestScriptKeepsItsVariables(t *testing.T) {
	tier.Alone(t)
	for _, name := range []string{"RUN", "PROFLLM", "GUARD", "ROLES", "PHASES", "FINISHING", "LATE", "CLIENT", "name",
		"pid", "code", "role", "ends", "IFS", "UID", "RANDOM", "BASHOPTS", "SERVE_ADDR", "SERVE_PORT",
		"BOX", "BOX4", "SERVE_COMMAND"} {
		p := sample()
		p.Env = []plan.Var{{Name: name, Value: plan.Text("x")}}
		_, err := render.Script(p, templates.FS)
		require.ErrorContains(t, err, "environment variable "+name+" belongs to the script or to bash itself")
	}
	// What the script assigns must be in that list, whoever adds to the template.
	for _, s := range scripts(t) {
		f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(string(s.text)), s.golden)
		require.NoError(t, err)
		planned := map[string]bool{"PATH": true}
		for _, v := range slices.Concat(s.plan.ModelCacheEnv(), s.plan.Env) {
			planned[v.Name] = true
		}
		syntax.Walk(f, func(n syntax.Node) bool {
			a, ok := n.(*syntax.Assign)
			if !ok || a.Name == nil || planned[a.Name.Value] {
				return true
			}
			p := *s.plan
			p.Env = []plan.Var{{Name: a.Name.Value, Value: plan.Text("x")}}
			_, err := render.Script(&p, templates.FS)
			require.ErrorContains(t, err, "belongs to the script", "the script assigns %s", a.Name.Value)
			return true
		})
	}
}

// covers: PL-S29, PL-S31, PL-S32, PL-S33, PL-S37 (--overlap), PL-S38, PL-S39, CD-44
func TestSteps(t *testing.T) {
	calls := regexp.MustCompile(`\bsrun\b[^\n]*`)
	for _, s := range scripts(t) {
		text := string(s.text)
		var srun []string
		for _, line := range strings.Split(text, "\n") {
			if code, _, _ := strings.Cut(line, " #"); !strings.HasPrefix(line, "#") {
				srun = append(srun, calls.FindAllString(code, -1)...)
			}
		}
		require.Len(t, srun, 1, "%s: every step goes through one function", s.golden)
		words := strings.Fields(srun[0])
		for _, option := range []string{"--overlap", "--input=none", "--export=ALL", "--mpi=none", "--cpu-bind=none",
			"--kill-on-bad-exit=1"} {
			require.Contains(t, words, option, s.golden)
		}
		inherit := strings.Index(text, "\nexport SLURM_EXPORT_ENV=ALL\n")
		require.Positive(t, inherit, "%s: sbatch --export=NONE takes PATH from every step", s.golden)
		require.Less(t, inherit, strings.Index(text, srun[0]), s.golden)
		require.Equal(t, 1, strings.Count(text, "--export="), "%s: values travel in the environment, never in --export",
			s.golden)
		mpi := 1
		for _, c := range s.plan.Loads[0].Clients {
			for _, w := range c.Srun {
				if strings.HasPrefix(w.String(), "--mpi=") { // a later option wins
					mpi++
				}
			}
		}
		require.Equal(t, mpi, strings.Count(text, "--mpi"), s.golden)
		require.Regexp(t, regexp.MustCompile(`(?m)^unset .*\bSLURM_CPUS_PER_TASK\b`), text,
			"versions of srun differ in reading it")
		for _, d := range directives(text) {
			require.NotContains(t, d, "%", "%s: an output without %%A or %%a", s.golden)
		}
		for i := range s.plan.Roles {
			require.Regexp(t, regexp.MustCompile(`(?m)^step --job-name=`+s.plan.Roles[i].Name+
				` --relative=\d+ --nodes=\d+ --ntasks=\d+ --ntasks-per-node=1 `), text)
		}
		require.Equal(t, len(s.plan.Roles) > 0, strings.Contains(text, `"$PROFLLM" job wait `),
			"%s: there is something to wait for", s.golden)
		load := &s.plan.Loads[0]
		for _, c := range load.Clients {
			per := max(c.TasksPerNode, 1)
			require.Contains(t, text,
				fmt.Sprintf("\nphase %s step --job-name=%s --relative=%d --nodes=%d --ntasks=%d --ntasks-per-node=%d ",
					load.Phase(c.Name), c.Name, c.Nodes.Offset, c.Nodes.Count, c.Nodes.Count*per, per), s.golden)
			require.Equal(t, c.Success != "",
				strings.Contains(text, ` job check --run "$RUN" --phase `+load.Phase(c.Name)+" "), s.golden)
			require.Equal(t, c.Ends && c.Tasks() > 1, strings.Contains(text, " --wait=0 "),
				"%s: ranks that end in their own time", s.golden)
		}
	}
}

// What a role must see is set inside its step, for a Ray cluster as well.
//
// covers: CD-35, CD-12
func TestGPUsAreSetInsideTheStep(t *testing.T) {
	tier.Alone(t)
	checked := 0
	for _, s := range scripts(t) {
		text := whole(t, s.plan)
		require.NotRegexp(t, regexp.MustCompile(`(?m)^\s*(export )?CUDA_VISIBLE_DEVICES=`),
			strings.ReplaceAll(text, "\\\n", ""), s.golden)
		for _, r := range s.plan.Roles {
			if !r.Engine || s.plan.SimulatedEngine {
				continue
			}
			_, step, ok := strings.Cut(text, "\nstep --job-name="+r.Name+" ")
			require.True(t, ok)
			step, _, ok = strings.Cut(step, " & ROLES+=")
			require.True(t, ok)
			env := strings.Index(step, "CUDA_VISIBLE_DEVICES="+plan.FormatGPUs(r.GPUs)+" ")
			require.Less(t, strings.Index(step, "env PROFLLM_ROLE="+r.Name+" "), env, s.golden)
			require.Positive(t, env, "%s: %s", s.golden, step)
			engine, many := "vllm serve ", `"$PROFLLM" job ray `
			switch s.plan.Workload {
			case "sglang":
				engine = "python3 -m sglang.launch_server "
			case "AIDynamo":
				engine = "python3 -m dynamo."
			}
			if !r.Ray {
				many = `"$PROFLLM" job rank `
			}
			require.Less(t, env, strings.Index(step, engine), s.golden)
			if r.Nodes.Count > 1 {
				require.Less(t, env, strings.Index(step, many), s.golden)
			}
			checked++
		}
	}
	require.Greater(t, checked, 20)
}

// In a rehearsal the stand-ins come first, whatever PATH the user sets.
func TestSimulatedPath(t *testing.T) {
	p := sample()
	p.Simulated = true
	p.Env = []plan.Var{{Name: "PATH", Value: plan.Text("/opt/vllm/bin:/usr/bin")}}
	script := rendered(t, p)
	require.Less(t, strings.Index(script, "export PATH=/opt/vllm/bin"),
		strings.Index(script, `export PATH="$RUN/bin:$PATH" # SIMULATED`))
	p.Simulated = false
	require.NotContains(t, rendered(t, p), "SIMULATED")
}

func TestLayers(t *testing.T) {
	layer := func(name, text string) fs.FS { return fstest.MapFS{name: {Data: []byte(text)}} }
	p := sample()
	builtin := rendered(t, p)

	whole := rendered(t, p, layer("slurm/job.sh.tmpl",
		"#!/bin/bash\necho {{quote .Dir}}{{range .Roles}} {{.Name}}{{end}}\n"))
	require.Equal(t, "#!/bin/bash\necho /out/s/a/0 serve\n", whole, "a file of the same path replaces the script")

	for _, block := range []string{"prologue", "env", "before_roles", "before_client", "epilogue"} {
		got := rendered(t, p, layer("slurm/site.block.tmpl",
			`{{define "`+block+`"}}`+"\necho "+block+" {{quote .RunID}}{{end}}\n"))
		require.Equal(t, 1, strings.Count(got, "\necho "+block+" exp_1"), "a block is replaced")
		require.Contains(t, got, "slurm/site.block.tmpl sha256:", "the header names it")
		without := strings.Replace(got, "\necho "+block+" exp_1", "", 1)
		require.Equal(t, statements(t, builtin), statements(t, without), "and nothing else is")
	}

	both := rendered(t, p, layer("slurm/a.block.tmpl", "{{define \"epilogue\"}}\necho first{{end}}"),
		layer("slurm/a.block.tmpl", "{{define \"epilogue\"}}\necho second{{end}}"))
	require.Contains(t, both, "echo first")
	require.NotContains(t, both, "echo second", "the first layer wins")

	under := rendered(t, p, layer("slurm/job.sh.tmpl", "#!/bin/bash\n{{block \"epilogue\" .}}{{end}}"),
		layer("slurm/a.block.tmpl", "{{define \"epilogue\"}}echo lower{{end}}"))
	require.NotContains(t, under, "lower", "blocks of a layer below the template's are another template's")

	for text, want := range map[string]string{
		"{{.NoSuch}}":             "can't evaluate field NoSuch",
		"{{.Config.Server.nope}}": `map has no entry for key "nope"`,
		"{{quote .Dir":            "unclosed action",
		"{{nofunc .Dir}}":         `function "nofunc" not defined`,
		"if then":                 "the script does not parse",
		"echo a\r\n":              "DOS line end",
	} {
		p.Config.Server = map[string]any{}
		_, err := render.Script(p, layer("slurm/job.sh.tmpl", text), templates.FS)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "slurm/job.sh.tmpl", text)
	}
	for text, want := range map[string]string{
		`{{define "epilog"}}echo{{end}}`:            `"epilog" is not a block of slurm/job.sh.tmpl, which has before_client, before_roles, env, epilogue, prologue`,
		`{{define "slurm/job.sh.tmpl"}}echo{{end}}`: "is not a block",
		"echo lost\n":                                "text stands outside of {{define}}",
		`{{define "env"}}{{.NoSuch}}{{end}}`:         "can't evaluate field NoSuch",
		`{{define "env"}}`:                           "unexpected EOF",
		`{{define "epilogue"}}` + "\nif" + `{{end}}`: "the script does not parse",
	} {
		_, err := render.Script(p, layer("slurm/site.block.tmpl", text), templates.FS)
		require.ErrorContains(t, err, want, text)
	}
	_, err := render.Script(p, layer("slurm/a\ntouch x #.block.tmpl", `{{define "env"}}{{end}}`), templates.FS)
	require.ErrorContains(t, err, "the file's name stands in the script")
	_, err = render.Script(p, fstest.MapFS{})
	require.EqualError(t, err, "no layer has the template slurm/job.sh.tmpl")
	_, err = render.Script(p, fstest.MapFS{"slurm/job.sh.tmpl": {Mode: fs.ModeDir}}, templates.FS)
	require.Error(t, err, "a layer that cannot be read is not passed over")
}

func TestPrologueIsShell(t *testing.T) {
	p := sample()
	p.Prologue = "module load cuda\nulimit -l unlimited"
	require.Contains(t, rendered(t, p), "\n\nmodule load cuda\nulimit -l unlimited\n\n")
	p.Prologue = "if"
	_, err := render.Script(p, templates.FS)
	require.ErrorContains(t, err, "the script does not parse")
}

// A template that nothing would read is refused; whatever else lies in the folder is
// nobody's business.
func TestCheckLayer(t *testing.T) {
	require.NoError(t, render.CheckLayer(templates.FS))
	for _, ok := range []string{"slurm/job.sh.tmpl", "slurm/batch.sh.tmpl", "slurm/any.block.tmpl", "README.md",
		"slurm/notes.txt"} {
		require.NoError(t, render.CheckLayer(fstest.MapFS{ok: {}}), ok)
	}
	for _, wrong := range []string{"job.sh.tmpl", "site.block.tmpl", "slurm/job.tmpl", "slurm/site.tmpl",
		"kubernetes/job.sh.tmpl", "slurm/batch.sh.block.tmpl.tmpl"} {
		require.ErrorContains(t, render.CheckLayer(fstest.MapFS{wrong: {}}),
			wrong+" is not read: the templates are slurm/job.sh.tmpl", wrong)
	}
}
