package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
)

// readDocument reads what a command with --output json printed.
func readDocument[T any](t *testing.T, o outcome) T {
	t.Helper()
	var d T
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &d), o.stderr)
	return d
}

const documentDir = "../../pkg/document"

// outputForm is a documented form: the commands that answer in it, and the type that
// makes it, in a folder.
type outputForm struct {
	commands []string
	schemas  []string
	dir, typ string
	about    string
}

var outputForms = []outputForm{
	{
		commands: []string{"slurm submit", "slurm resume", "kube submit", "kube resume", "rehearse", "run", "serve"}, dir: documentDir, typ: "Jobs",
		schemas: []string{"profllm.output.submit/1", "profllm.output.resume/1", "profllm.output.rehearse/1",
			"profllm.output.run/1", "profllm.output.serve/1"},
	},
	{
		commands: []string{"slurm status", "slurm cancel", "kube status", "kube cancel"}, dir: documentDir, typ: "States",
		schemas: []string{"profllm.output.status/1", "profllm.output.cancel/1"},
	},
	{
		commands: []string{"slurm logs", "kube logs"}, schemas: []string{"profllm.output.logs/1"}, dir: documentDir, typ: "Logs",
		about: "`--follow` prints text only.",
	},
	{
		commands: []string{"collect", "kube collect"}, schemas: []string{"profllm.output.collect/1"}, dir: documentDir, typ: "Collect",
		about: "The results are printed as they are made; `exit_code` and `errors` come at the end.",
	},
	{commands: []string{"why"}, schemas: []string{"profllm.output.why/1"}, dir: documentDir, typ: "Why"},
	{commands: []string{"verify"}, schemas: []string{"profllm.output.verify/1"}, dir: documentDir, typ: "Verify"},
	{commands: []string{"import"}, schemas: []string{"profllm.output.import/1"}, dir: documentDir, typ: "Import"},
	{
		commands: []string{"bench suite"}, schemas: []string{"profllm.output.bench-suite/1"}, dir: documentDir,
		typ: "Suites", about: "With `--list`, `dir`, `url` and `model` are absent.",
	},
	{commands: []string{"lock"}, schemas: []string{"profllm.output.lock/1"}, dir: documentDir, typ: "Lock"},
	{
		commands: []string{"store fill", "store rebuild"}, dir: documentDir, typ: "StoreFill",
		schemas: []string{"profllm.output.store-fill/1", "profllm.output.store-rebuild/1"},
	},
	{
		commands: []string{"store info"}, schemas: []string{"profllm.output.store-info/1"}, dir: "../../pkg/store", typ: "Info",
	},
	{
		commands: []string{"store verify"}, schemas: []string{"profllm.output.store-verify/1"}, dir: "../../pkg/store",
		typ: "Check", about: "A fault has the `id` of a run, if it is one of a run, and says `what` is wrong.",
	},
	{
		commands: []string{"store backup", "store restore"}, dir: documentDir, typ: "StoreBackup",
		schemas: []string{"profllm.output.store-backup/1", "profllm.output.store-restore/1"},
	},
	{
		commands: []string{"store prune"}, schemas: []string{"profllm.output.store-prune/1"}, dir: documentDir, typ: "StorePrune",
	},
	{commands: []string{"archive"}, schemas: []string{"profllm.output.archive/1"}, dir: documentDir, typ: "Archive"},
	{
		commands: []string{"stage", "image stage"}, schemas: []string{"profllm.output.stage/1"},
		dir: documentDir, typ: "Stage",
	},
	{
		commands: []string{"image list", "image prune"}, dir: documentDir, typ: "Images",
		schemas: []string{"profllm.output.image-list/1", "profllm.output.image-prune/1"},
	},
	{
		commands: []string{"report", "compare", "trend", "confirm"}, schemas: []string{"profllm.report/1"},
		dir: "../../pkg/report", typ: "Report",
		about: "While the runs of `confirm` are not over, it answers in the next form.",
	},
	{schemas: []string{"profllm.output.confirm/1"}, dir: documentDir, typ: "Confirm", commands: []string{"confirm"}},
	{commands: []string{"diff"}, schemas: []string{"profllm.diff/1"}, dir: "../../pkg/report", typ: "Delta"},
	{commands: []string{"doctor"}, schemas: []string{"profllm.doctor/1"}, dir: "../../pkg/doctor", typ: "Report"},
	{
		commands: []string{"check"}, schemas: []string{"profllm.output.check/1"}, dir: documentDir, typ: "Check",
		about: "If the server does not answer or its models are not known, the form is `profllm.output.error/1`.",
	},
	{commands: []string{"profile"}, schemas: []string{"profllm.output.profile/1"}, dir: documentDir, typ: "Profile"},
	{
		commands: []string{"nightly"}, schemas: []string{"profllm.output.nightly/1"}, dir: "../../pkg/nightly",
		typ:   "Outcome",
		about: "`verdict` is as in `nightly.json`.",
	},
	{
		commands: []string{"args list", "args show"}, dir: documentDir, typ: "Options",
		schemas: []string{"profllm.output.args-list/1", "profllm.output.args-show/1"},
	},
	{
		commands: []string{"args diff"}, schemas: []string{"profllm.output.args-diff/1"}, dir: documentDir,
		typ: "OptionChanges",
	},
	{
		commands: []string{"args capture"}, schemas: []string{"profllm.output.args-capture/1"}, dir: documentDir,
		typ: "CapturedOptions",
	},
	{
		commands: []string{"slurm dry-run"},
		about: "A list: the plans (`profllm.plan/1`), then the batches (`profllm.batch/1`), as in the files `plan.json`\n" +
			"and `batch.json` of the runs.",
	},
	{
		commands: []string{"kube dry-run"},
		about:    "A list: the plans (`profllm.plan/2`), as in the files `plan.json` of the runs.",
	},
}

// outputParts are the types inside those forms.
var outputParts = []string{
	"Problem", "Row", "JobEntry", "LeftEntry", "StateEntry", "LogEntry", "LogLine", "FileEntry", "LockedRun",
	"ArchiveEntry", "ArchivedFile", "StoredRun", "CheckEntry", "SuiteEntry",
	"TraceEntry",
}

// partName is the name of such a type on the page.
func partName(typ string) string { return strings.ToLower(typ[:1]) + typ[1:] }

const outputIntro = `# Output for programs

With ´--output json´, a command prints one JSON document to standard output, at its end, also if it fails. Messages go
to standard error. Keys may be added to a form; a key that changes its meaning or goes away makes a new version of the
schema. ´dir´, ´file´, ´root´ and ´runs´ are absolute paths in the forms ´profllm.output.…´. Stories, errors, ´verify´
and runs in archives have paths as you gave them.

´´´sh
profllm slurm submit s.toml --output json >jobs.json || jq .errors jobs.json
jq -r '.jobs[].job_id' jobs.json
root=$(jq -r .root jobs.json)
while profllm slurm status --exit-code "$root" >/dev/null; [ $? = 8 ]; do sleep 60; done
profllm collect "$root" --output json | jq -r '.results[] | "\(.dir) \(.result.validity.verdict)"'
´´´

Three commands have no form here: ´export´ writes the formats of other programs, ´slurm watch´ is for people, and
´bench serve´ writes vLLM's result file.

Every document of the schemas ´profllm.output.…´ has these keys:

`

// outputPage is written from the types.
func outputPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString(generated + strings.ReplaceAll(outputIntro, "´", "`"))
	writeJSONKeys(t, &b, documentDir, "Head")
	b.WriteString("\nA command that fails before it has an answer prints a document with these keys only\n" +
		"(`profllm.output.error/1`), in place of any form below.\n")
	for _, f := range outputForms {
		fmt.Fprintf(&b, "\n## `%s`\n", strings.Join(f.commands, "`, `"))
		if len(f.schemas) > 0 {
			fmt.Fprintf(&b, "\n`%s`\n", strings.Join(f.schemas, "`, `"))
		}
		if f.about != "" {
			b.WriteString("\n" + f.about + "\n")
		}
		if f.typ != "" {
			b.WriteString("\n")
			writeJSONKeys(t, &b, f.dir, f.typ)
		}
	}
	b.WriteString("\n## Parts\n")
	for _, name := range outputParts {
		fmt.Fprintf(&b, "\n### `%s`\n\n", partName(name))
		writeJSONKeys(t, &b, documentDir, name)
	}
	return b.String()
}

func writeJSONKeys(t *testing.T, b *strings.Builder, dir, name string) {
	b.WriteString("| key | type | meaning |\n|---|---|---|\n")
	for _, k := range jsonKeys(t, dir, name) {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", k.name, k.kind, strings.ReplaceAll(k.meaning, "|", `\|`))
	}
}

type jsonKey struct{ name, kind, meaning string }

// jsonKeys reads the keys of a type, without those of its head, from the source.
func jsonKeys(t *testing.T, dir, name string) []jsonKey {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var keys []jsonKey
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				keys = append(keys, fieldKeys(s, dir == documentDir)...)
			}
			return false
		})
	}
	require.NotEmpty(t, keys, name)
	return keys
}

// fieldKeys are the keys of a struct; parts says whether its types may be outputParts.
func fieldKeys(s *ast.StructType, parts bool) (keys []jsonKey) {
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		if tag == "" || tag == "-" {
			continue
		}
		text := meaning(f.Comment, f.Doc)
		if strings.Contains(options, "omit") {
			text = strings.TrimSpace(text + " (may be missing)")
		}
		keys = append(keys, jsonKey{tag, jsonKind(f.Type, parts), text})
	}
	return keys
}

// jsonKind says a Go type in the words of JSON. Types of other packages that have a page
// or a file of their own are named by it.
func jsonKind(e ast.Expr, parts bool) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return jsonKind(x.X, parts)
	case *ast.ArrayType:
		return "list of " + jsonKind(x.Elt, parts)
	case *ast.MapType:
		return "object of " + jsonKind(x.Value, parts)
	case *ast.SelectorExpr:
		switch x.X.(*ast.Ident).Name + "." + x.Sel.Name {
		case "result.Result":
			return "[result](result.schema.json)"
		case "result.Failure":
			return "[`failure` of a result](result.schema.json)"
		case "time.Time":
			return "RFC 3339 time"
		}
		return "object"
	case *ast.Ident:
		switch x.Name {
		case "int", "int64":
			return "integer"
		case "float64":
			return "number"
		case "bool":
			return "boolean"
		case "string":
			return "string"
		}
		if parts && slices.Contains(outputParts, x.Name) {
			return fmt.Sprintf("[`%s`](#%s)", partName(x.Name), strings.ToLower(x.Name))
		}
		if ast.IsExported(x.Name) {
			return "object or word"
		}
	}
	return "object"
}

// Every command with --output json is on the page, and the page names no other.
func TestOutputFormsAreDocumented(t *testing.T) {
	t.Parallel()
	var c cli
	k, err := newParser(&app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}, &c, func(int) {})
	require.NoError(t, err)
	var have, want []string
	for _, leaf := range k.Model.Leaves(true) {
		asks := func(f *kong.Flag) bool {
			return f.Name == "output" && (f.Default == "text" || leaf.Name == "import")
		}
		if slices.ContainsFunc(leaf.Flags, asks) {
			want = append(want, strings.TrimPrefix(leaf.FullPath(), "profllm "))
		}
	}
	for _, f := range outputForms {
		have = append(have, f.commands...)
	}
	slices.Sort(have)
	require.ElementsMatch(t, want, slices.Compact(have))
}

const badScenario = `name = "bad"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodez = 2
`

// Commands on a rehearsal answer with the documented keys, and with one document when
// they fail.
func TestOutputIsAsDocumented(t *testing.T) {
	t.Parallel()
	dir := foreignTree(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pair.toml"), []byte(reportScenario), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.toml"), []byte(badScenario), 0o644))
	slurm := withSlurm(fakeSlurm(t))
	root := rehearsedPair.copyTo(t, dir)
	requireDocumented(t, "Jobs", rehearsedPair.said)
	done := readDocument[document.Jobs](t, rehearsedPair.said)
	require.Len(t, done.Jobs, 2)
	require.Len(t, done.Results, 2)
	require.Equal(t, []string{done.Results[0].Dir}, done.Jobs[0].Runs)
	one := filepath.Join(root, "tp1", "0")
	for _, x := range []struct {
		typ  string
		code int
		args []string
	}{
		{"States", exitOK, []string{"slurm", "status", "--exit-code"}},
		{"States", exitOK, []string{"slurm", "cancel", root}},
		{"Error", exitUsage, []string{"slurm", "resume", root}}, // a rehearsal
		{"Collect", exitOK, []string{"collect"}},
		{"Why", exitOK, []string{"why"}},
		{"Logs", exitOK, []string{"slurm", "logs", one}},
		{"Verify", exitOK, []string{"verify", "pair.toml"}},
		{"Verify", exitDefinition, []string{"verify", "pair.toml", "bad.toml"}},
		{"Lock", exitOK, []string{"lock"}},
		{"Import", exitInvalid, []string{"import", "theirs", "--output-dir", "ours"}},
		{"StoreFill", exitOK, []string{"store", "fill", "--store", "runs.db"}},
		{"StoreFill", exitOK, []string{"store", "rebuild", "--store", "runs.db"}},
		{"StoreBackup", exitOK, []string{"store", "backup", "--store", "runs.db", "runs.zst"}},
		{"StoreBackup", exitOK, []string{"store", "restore", "--store", "again.db", "runs.zst"}},
		{"StorePrune", exitOK, []string{"store", "prune", "--store", "again.db", "--formers", "90d"}},
		{"Error", exitUsage, []string{"store", "fill", "--store", ""}},
		{"Error", exitUsage, []string{"store", "info", "--store", "pair.toml"}},
		{"Archive", exitOK, []string{"archive", root}},
		{"Archive", exitOK, []string{"archive", "--list", root + ".tar.xz"}},
		{"Archive", exitUsage, []string{"archive", root, "gone"}},
		{"Error", exitUsage, []string{"slurm", "logs", root}},
		{"Error", exitUsage, []string{"slurm", "logs", "--follow", one}},
		{"Error", exitUsage, []string{"slurm", "cancel"}},
		{"Error", exitUsage, []string{"report", "gone"}},
		{"Error", exitUsage, []string{"slurm", "status", "--nonsense"}},
		{"Error", exitDefinition, []string{"slurm", "dry-run", "bad.toml"}},
	} {
		o := profllm(t, dir, slurm, append(x.args, "--output", "json")...)
		require.Equal(t, x.code, o.code, o.stderr)
		requireDocumented(t, x.typ, o)
	}
}

// requireDocumented holds a document against the page: its head, and its keys.
func requireDocumented(t *testing.T, typ string, o outcome) {
	t.Helper()
	keys := readDocument[map[string]json.RawMessage](t, o)
	h := readDocument[document.Head](t, o)
	require.Equal(t, o.code, h.ExitCode)
	require.Regexp(t, `^profllm\.output\.[a-z-]+/\d+$`, h.Schema)
	require.NotContains(t, string(keys["errors"]), "null")
	documented := jsonKeys(t, documentDir, "Head")
	if typ != "Error" {
		documented = append(documented, jsonKeys(t, documentDir, typ)...)
	} else {
		require.NotEmpty(t, h.Errors, "why it failed")
	}
	for _, k := range documented {
		if strings.Contains(k.meaning, "(may be missing)") {
			delete(keys, k.name)
			continue
		}
		require.Contains(t, keys, k.name)
		delete(keys, k.name)
	}
	require.Empty(t, keys, "every key is documented")
}

// What a document says: the error of a file with its place and hint, the jobs of a
// rehearsal with their records, the hash of an archived file.
func TestDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.toml"), []byte(badScenario), 0o644))
	o := profllm(t, dir, nil, "verify", "bad.toml", "--output", "json")
	v := readDocument[document.Verify](t, o)
	require.Len(t, v.Files, 1)
	require.False(t, v.Files[0].OK)
	p := v.Files[0].Errors[0]
	require.Equal(t, []any{"bad.toml", 5}, []any{p.File, p.Line})
	require.Contains(t, p.Hint, "num_nodes")
	require.NotContains(t, p.What, "bad.toml:5")
	require.Contains(t, o.stderr, "bad.toml:5", "people read it as before")

	o = profllm(t, dir, nil, "slurm", "dry-run", "bad.toml", "--output", "json")
	require.Contains(t, readDocument[document.Head](t, o).Errors, p)

	o = submitSleep(t, dir)
	require.Zero(t, o.code, o.stderr)
	d := readDocument[document.Jobs](t, o)
	require.Equal(t, filepath.Join(d.Root, "a", "0"), d.Jobs[0].Dir)
	require.Equal(t, []document.JobEntry{{JobID: "77", Dir: d.Jobs[0].Dir, Runs: []string{d.Jobs[0].Dir}}}, d.Jobs)
	requireDocumented(t, "Jobs", o)

	l := newLive(t)
	o = profllm(t, l.dir, l.env(), "slurm", "status", ".", "--exit-code", "--output", "json")
	require.Equal(t, exitNotOver, o.code)
	require.Equal(t, run.Running, readDocument[document.States](t, o).Runs[0].State.State)
	root := filepath.Dir(filepath.Dir(l.dir))
	o = profllm(t, filepath.Dir(root), l.env(), "archive", root, "--output", "json")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, readDocument[document.Archive](t, o).Errors[0].Hint, "profllm slurm status ")
}

const sleepScenario = `name = "s"
[[Tests]]
id = "a"
test_template_name = "Sleep"
time_limit = "5m"
cmd_args.seconds = 100
`

// submitSleep submits one run in dir to a Slurm that takes everything as job 77.
func submitSleep(t *testing.T, dir string) outcome {
	t.Helper()
	fake := fakeSlurm(t)
	for program, answer := range map[string]string{"sbatch": "echo 77", "scontrol": "true"} {
		require.NoError(t, os.WriteFile(filepath.Join(fake, program), []byte("#!/bin/bash\n"+answer+"\n"), 0o755))
	}
	copyFile(t, "../../examples/slurm-lab/site.toml", filepath.Join(dir, "site.toml"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sleep.toml"), []byte(sleepScenario), 0o644))
	return profllm(t, dir, withSlurm(fake), "slurm", "submit", "--system", "site.toml", "sleep.toml", "--output",
		"json")
}

// What has no verdict waits for one, or nothing will come of it, and collect tells which.
func TestCollectWithoutAVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := submitSleep(t, dir)
	fake := fakeSlurm(t)
	require.Equal(t, exitOK, o.code, o.stderr)
	root := readDocument[document.Jobs](t, o).Root
	submitted, err := filepath.Glob(filepath.Join(root, "*", "0", run.SubmitFile))
	require.NoError(t, err)
	require.Len(t, submitted, 1)
	collect := func(verdict string, code int) {
		t.Helper()
		for _, args := range [][]string{{"collect"}, {"collect", "--offline"}} {
			o := profllm(t, dir, withSlurm(fake), args...)
			require.Equal(t, code, o.code)
			require.Regexp(t, `(?m)/0 +`+verdict+`$`, o.stdout)
		}
		o := profllm(t, dir, withSlurm(fake), "collect", "--output", "json")
		require.Equal(t, code, o.code)
		d := readDocument[document.Collect](t, o)
		require.Equal(t, verdict, cmp.Or(d.Results[0].NoJob, "not over"))
		o = profllm(t, dir, nil, "report", "--html", "r.html")
		require.Equal(t, exitOK, o.code, o.stderr)
		page, err := os.ReadFile(filepath.Join(dir, "r.html"))
		require.NoError(t, err)
		for _, text := range []string{o.stdout, string(page)} {
			require.Contains(t, text, verdict)
			require.Equal(t, verdict == "not over", strings.Contains(text, "not over"), text)
		}
		if verdict == "refused" {
			require.Contains(t, string(page), "sbatch: error: Invalid account")
		}
	}
	collect("not over", exitNotOver)
	require.NoError(t, os.WriteFile(submitted[0], []byte(`{"refused": "sbatch: error: Invalid account"}`), 0o644))
	collect("refused", exitNotSubmit)
	require.Contains(t, profllm(t, dir, nil, "why", "results").stdout, "/0: refused\n")
	require.NoError(t, os.Remove(submitted[0]))
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(submitted[0]), run.IntentFile)))
	collect("not submitted", exitNotSubmit)
	require.Contains(t, profllm(t, dir, nil, "why", "results").stdout, "/0: not submitted\n")
}

// Nothing is cancelled that was not named, and resume and lock take the only scenario.
func TestPathsByDefault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := submitSleep(t, dir)
	root := readDocument[document.Jobs](t, o).Root
	slurm := withSlurm(fakeSlurm(t))
	o = profllm(t, dir, slurm, "slurm", "cancel")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "name what to cancel")
	require.Equal(t, exitUsage, profllm(t, dir, slurm, "slurm", "cancel", "--all", root).code)
	require.Contains(t, profllm(t, dir, slurm, "slurm", "cancel", "--all").stdout, "results/s_")
	o = profllm(t, dir, slurm, "slurm", "resume", "--output", "json")
	require.Equal(t, root, readDocument[document.Jobs](t, o).Root)
	require.Zero(t, profllm(t, dir, slurm, "lock").code)
	require.Equal(t, exitNotOver, profllm(t, dir, slurm, "collect").code)

	require.NoError(t, os.CopyFS(root+"-2", os.DirFS(root)))
	for _, verb := range [][]string{{"slurm", "resume"}, {"lock"}} {
		o = profllm(t, dir, slurm, verb...)
		require.Equal(t, exitUsage, o.code)
		require.Contains(t, o.stderr,
			"2 scenario directories below results\n\thint: name one of them, such as results/s_")
	}
	require.Contains(t, profllm(t, dir, slurm, "slurm", "logs").stderr, "2 runs below results")
	require.Contains(t, profllm(t, t.TempDir(), slurm, "report").stderr, "there is no folder results here")
}
