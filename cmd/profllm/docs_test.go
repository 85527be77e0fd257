package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/editor"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/validity"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

var update = flag.Bool("update", false, "rewrite the generated reference pages")

const docs = "../../docs"

// The reference is written from the types: a key, a flag or an exit code that
// changes makes this fail until "make docs" has rewritten the page.
func TestReference(t *testing.T) {
	t.Parallel()
	schema, err := result.Schema()
	require.NoError(t, err)
	schemaJSON, err := json.MarshalIndent(schema, "", "  ")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"keys.md": keysPage(t), "commands.md": commandsPage(t), "exit-codes.md": exitCodesPage(t),
		"failures.md":                failuresPage(t),
		"planted-faults.md":          plantedPage(),
		"requirements.md":            requirementsPage(t),
		"thresholds.md":              thresholdsPage(),
		"output.md":                  outputPage(t),
		"result.schema.json":         string(schemaJSON) + "\n",
		"../../pkg/editor/keys.json": keysFile(t),
	} {
		file := filepath.Join(docs, "reference", name)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			continue
		}
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(have), text, "%s is not current: make docs", file)
	}
	t.Run("man", testManPages)
}

// What the page of engines says of those that have a workload is what the scripts of their runs
// say.
//
// covers: MET-3
func TestEnginesPage(t *testing.T) {
	t.Parallel()
	scripts := ""
	require.NoError(t, filepath.WalkDir("../../pkg/render/testdata/golden", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		scripts += strings.Join(strings.Fields(strings.ReplaceAll(string(data), "\\\n", " ")), " ") + "\n"
		return err
	}))
	page, err := os.ReadFile(docs + "/reference/engines.md")
	require.NoError(t, err)
	rows := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.TrimSpace(cells[1])] = cells[2:4] // vLLM, SGLang
		}
	}
	for _, title := range []string{"server", "client", "lengths", "load"} {
		require.Contains(t, rows, title)
		for _, cell := range rows[title] {
			for name := range strings.SplitSeq(strings.Trim(cell, " `"), ", ") {
				found := name == "--request-rate" || strings.Contains(scripts, name+" ") // no golden script limits the rate
				require.True(t, found, "%s: %q is in no golden script", title, name)
			}
		}
	}
	for option := range strings.SplitSeq(strings.Trim(rows["TP, PP, DP, EP"][0], " `"), ", ") {
		_, ok := arguments.Serve.Find(strings.TrimPrefix(option, "--"))
		require.True(t, ok, option)
	}
}

const generated = "<!-- Written by go test ./cmd/profllm -run TestReference -update. Do not edit. -->\n\n"

// keyTables are the types behind the tables of definition files.
var keyTables = []struct{ title, dir, name string }{
	{"System file", "config", "System"}, {"`[[partitions]]`", "config", "Partition"}, {"`[[partitions.groups]]`", "config", "Group"},
	{"`[kubernetes]` (profllm)", "config", "Kubernetes"}, {"`[kubernetes.model_cache]` (profllm)", "config", "ModelCache"},
	{"`[[kubernetes.tolerations]]` (profllm)", "config", "Toleration"},
	{"`[[signatures]]` (profllm)", "config", "Signature"},
	{"Test file; a scenario's `[[Tests]]` may override every key", "scenario", "definition"},
	{"Scenario", "scenario", "head"}, {"Scenario `[[Tests]]`", "scenario", "entry"},
	{"`[[Tests.dependencies]]`", "scenario", "Dependency"}, {"`[[Tests.phases]]` (profllm)", "scenario", "Phase"},
	{"`repeat = { … }` (profllm)", "scenario", "Until"},
	{"`[Tests.telemetry]` (profllm)", "scenario", "Telemetry"}, {"`[Tests.sweep]` (profllm)", "scenario", "Sweep"}, {"`[Tests.search]` (profllm)", "scenario", "Search"}, {"`[Tests.slurm]` (profllm)", "scenario", "Slurm"},
	{"`[preflight]` of a system file, `[Tests.preflight]` of a scenario (profllm)", "config", "Preflight"},
	{"`[reports.NAME]` of a scenario or system file", "config", "reportKeys"},
	{"`[[git_repos]]`, `[proxy_script_repo]`", "scenario", "GitRepo"},
	{"`[helpers.NAME]` (profllm)", "plan", "helper"},
	{"`[nsys]`", "plan", "nsys"},
	{"`[viztracer]` (profllm)", "plan", "viztracer"},
	{"`[torch_profiler]` (profllm); every other key is one of vLLM's profiler_config", "plan", "torchProfiler"},
	{"`[cmd_args]` of workloads vllm and sglang", "serving", "Config"},
	{"`[cmd_args]` of workload vllm, further keys", "workload/vllm", "Config"},
	{"`[cmd_args]` of workload sglang, further keys", "workload/sglang", "Config"},
	{"`[cmd_args.prefill]`, `[cmd_args.decode]`; every other key is an option of the server", "serving", "RoleConfig"},
	{"`[cmd_args.prefill]`, `[cmd_args.decode]` of workload vllm, further keys", "workload/vllm", "role"},
	{"`[cmd_args.prefill]`, `[cmd_args.decode]` of workload sglang, further keys", "workload/sglang", "role"},
	{"`[cmd_args]` of workload AIDynamo", "workload/dynamo", "Config"},
	{"`[cmd_args.dynamo]`", "workload/dynamo", "service"},
	{"`[cmd_args.dynamo.prefill_worker]`, `[cmd_args.dynamo.decode_worker]`", "workload/dynamo", "worker"},
	{"`[cmd_args.dynamo.ports]` (profllm): bases of the workers' ports", "workload/dynamo", "bases"},
	{"`[cmd_args.dynamo.dcgm_exporter]`", "workload/dynamo", "exporter"},
	{"`[cmd_args]` of workload Sleep", "workload/sleep", "Config"}, {"`[cmd_args]` of workload BashCmd", "workload/bash", "Config"},
	{"`[cmd_args]` of workload SlurmContainer", "workload/container", "Config"},
	{"`[cmd_args]` of workload NcclTest; every other key is an option of the program", "workload/nccl", "Config"},
	{"`[cmd_args]` of workload UCCTest", "workload/command", "UCCConfig"}, {"`[cmd_args]` of workload Fio", "workload/command", "FioConfig"},
	{"`[cmd_args]` of workload vllm-offline (profllm)", "workload/offline", "Config"},
	{"`[bench_cmd_args]`; every other key is an option of the client", "bench/vllmserve", "Config"},
	{"`[bench_cmd_args]` of client sglang; every other key is an option of it", "bench/sglang", "Config"},
	{"`[semantic_eval_cmd_args]`", "bench/gsm8k", "Config"},
}

// keysPage lists the keys of definition files with the comments of their fields.
func keysPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString(generated + "# Keys of definition files\n\nKeys marked (profllm) are not known to CloudAI.\n")
	for _, s := range keyTables {
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | meaning |\n|---|---|---|\n", s.title)
		for _, k := range keysOf(t, s.dir, s.name) {
			if k.Required {
				k.Meaning = "Required. " + k.Meaning
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, k.Kind, strings.ReplaceAll(k.Meaning, "|", `\|`))
		}
	}
	return b.String()
}

// keysOf are the keys of a type.
func keysOf(t *testing.T, dir, name string) (keys []editor.Key) {
	for _, f := range fields(t, filepath.Join("../../pkg", dir), name) {
		key, required, _ := strings.Cut(reflect.StructTag(f.tag).Get("toml"), ",")
		if key == "" || key == "-" {
			continue
		}
		require.NotEmpty(t, f.comment, "%s.%s has no comment", name, key)
		keys = append(keys, editor.Key{Name: key, Kind: f.kind, Meaning: f.comment, Required: required != ""})
	}
	return keys
}

// keysFile is what the schemas for editors are made of.
func keysFile(t *testing.T) string {
	tables := map[string][]editor.Key{}
	for _, s := range keyTables {
		tables[s.dir+"."+s.name] = keysOf(t, s.dir, s.name)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	require.NoError(t, e.Encode(tables))
	return b.String()
}

type field struct{ tag, kind, comment string }

// meaning is the comment of a field or a constant: behind it, or above it if it is long.
func meaning(behind, above *ast.CommentGroup) string {
	if text := strings.TrimSpace(behind.Text()); text != "" {
		return text
	}
	return strings.Join(strings.Fields(above.Text()), " ")
}

// fields reads a struct's fields from the source of its package.
func fields(t *testing.T, dir, name string) []field {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var out []field
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range s.Fields.List {
				if f.Tag == nil {
					continue
				}
				out = append(out, field{strings.Trim(f.Tag.Value, "`"), kind(f.Type), meaning(f.Comment, f.Doc)})
			}
			return false
		})
	}
	require.NotEmpty(t, out, name)
	return out
}

// kind says a Go type in the words of TOML.
func kind(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return kind(x.X)
	case *ast.ArrayType:
		return "list of " + kind(x.Elt)
	case *ast.SelectorExpr:
		switch x.Sel.Name {
		case "Table":
			return "table"
		case "Value":
			return "value or list"
		case "Limit":
			return "duration"
		case "Words":
			return "string or list of strings"
		case "Export":
			return "list of names, or \"ALL\""
		}
	case *ast.Ident:
		switch x.Name {
		case "int":
			return "integer"
		case "float64":
			return "number"
		case "bool":
			return "boolean"
		case "Limit":
			return "duration"
		case "Percent":
			return "string"
		case "Repeat":
			return "integer or table"
		case "APICheck":
			return "boolean or list"
		case "Export":
			return "list of names, or \"ALL\""
		case "Words":
			return "string or list of strings"
		case "string":
			return "string"
		}
	}
	return "table"
}

// commandsPage lists every verb and flag from the command line's own model.
func commandsPage(t *testing.T) string {
	var c cli
	k, err := newParser(&app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}, &c, func(int) {})
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString(generated + "# Commands\n")
	for _, leaf := range k.Model.Leaves(true) {
		fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", leaf.FullPath(), leaf.Help)
		writeArguments(&b, leaf)
	}
	b.WriteString("\n## Flags of every command\n")
	writeArguments(&b, k.Model.Node)
	return b.String()
}

func writeArguments(b *strings.Builder, leaf *kong.Node) {
	var rows []string
	for _, p := range leaf.Positional {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", p.Summary(), p.Default, p.Help))
	}
	for _, f := range leaf.Flags {
		if f.Hidden || f.Name == "help" {
			continue
		}
		help := f.Help
		if len(f.Envs) > 0 {
			help += " Environment: `" + strings.Join(f.Envs, "`, `") + "`."
		}
		help = strings.ReplaceAll(help, "${enum}", strings.ReplaceAll(f.Enum, ",", ", "))
		rows = append(rows, fmt.Sprintf("| `--%s` | %s | %s |", f.Name, f.Default, strings.ReplaceAll(help, "|", `\|`)))
	}
	if len(rows) > 0 {
		b.WriteString("\n| argument | default | meaning |\n|---|---|---|\n" + strings.Join(rows, "\n") + "\n")
	}
}

type exitCode struct{ code, name, when string }

// exitCodes reads the codes from their constants.
func exitCodes(t *testing.T) (codes []exitCode) {
	f, err := parser.ParseFile(token.NewFileSet(), "execute.go", nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "exit") || len(spec.Values) != 1 {
			return true
		}
		if v, ok := spec.Values[0].(*ast.BasicLit); ok {
			text := meaning(spec.Comment, spec.Doc)
			require.NotEmpty(t, text, spec.Names[0].Name)
			codes = append(codes, exitCode{v.Value, spec.Names[0].Name, text})
		}
		return true
	})
	return codes
}

func exitCodesPage(t *testing.T) string {
	page := generated + "# Exit codes\n\n| code | name | when |\n|---|---|---|\n"
	for _, c := range exitCodes(t) {
		page += fmt.Sprintf("| %s | `%s` | %s |\n", c.code, c.name, c.when)
	}
	return page + `
A job ends with the exit code of its script. If that is 0, it ends with the judgement: 5 or 6.

| code | job |
|---|---|
| 0 | every phase succeeded and every result is valid |
| 1 | the script ended early: a role died before it was ready, or while it was needed and no other instance of it was left, the roles were not ready in time, or a hook before the test failed. Also if no result could be written |
| 5 | the script reached its end, but a phase failed: the client, the evaluation or a hook after the test ended with another code than 0, or without the line that means success |
| 6 | the script reached its end and every phase succeeded, but a result is invalid |
| 9 | a check of the API before the first load failed (api_check), so nothing was measured |
| 70, 71 | the job could not begin: the program does not run on its node, another job owns the run, or the nodes failed their checks |
| 124 | the run reached its own time limit in an allocation that it shares with others |
| 143 | the job was ended from outside, by Slurm or by a cancellation |

` + "`profllm why`" + ` names the cause behind the code, such as the role that died.

` + "`profllm slurm status`" + ` exits with 0 if it could show the states. With ` + "`--exit-code`" +
		`, it exits with the jobs' result:

| code | jobs |
|---|---|
| 8 | at least one job waits or runs, or its state is unknown |
| 5 | every job is over, and at least one failed, was cancelled or reached a limit |
| 6 | every job is over, none failed, and at least one judged its own result invalid |
| 4 | every job is over and succeeded, and at least one run has no job |
| 0 | every run has a job that succeeded |

` + "`profllm collect`" + `, ` + "`rehearse`" + ` and every verb with ` + "`--wait`" +
		` exit with the first of these that is so: 5 if a run failed,
6 if a result is invalid, 8 if a run is not over, 4 if a run has no job (Slurm refused it, or nothing was submitted).
A verb that waits for Slurm's jobs ends with 4, whatever the other runs did, once no unfinished job can ever start;
[states.md](../explanation/states.md#jobs-that-cannot-start) lists the reasons.

` + "`profllm check`" + ` exits with 0 only if every check passed, and with 1 if one failed, or if the server does not
answer. It exits with 2 if the server does not have the model that ` + "`--model`" + ` names.
`
}

// thresholdsPage lists what the checks of a result compare with.
func thresholdsPage() string {
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	page := generated + `# Thresholds

What a scenario may set in ` + "`[Tests.accept]`" +
		` (profllm), for the [checks](../explanation/validity.md) of a test's results. A share is from 0 to 1. A check whose
threshold is set says so in its detail, with the default, and whether it is looser.

| key | check | default | from | to | unit | meaning | accepts more if |
|---|---|---|---|---|---|---|---|
`
	for _, x := range validity.Thresholds() {
		more := "larger"
		if x.Less {
			more = "smaller"
		}
		page += fmt.Sprintf("| `%s` | `%s` | %s | %s | %s | %s | %s | %s |\n", x.Key, x.Check, plain(x.Default),
			plain(x.Min), plain(x.Max), x.Unit, x.Means, more)
	}
	return page
}

// failuresPage lists the causes that a record or a story may name.
func failuresPage(t *testing.T) string {
	table, err := failure.Builtin()
	require.NoError(t, err)
	page := generated + `# Failures

The causes that ` + "`profllm why`, `collect` and `result.json`" +
		` name. A **root** is a cause. A **symptom** is a cause only if no root is found. An **answer** is a
server's refusal of a request; it is a cause only for errors of a proxy or a client. A **tail** says that something ended and is never a cause. [How a cause is found](../how-to/failed-run.md).
`
	areas := map[string][]failure.Signature{}
	var order []string
	for _, s := range table.Signatures() {
		if areas[s.Area] == nil {
			order = append(order, s.Area)
		}
		areas[s.Area] = append(areas[s.Area], s)
	}
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for _, area := range order {
		page += "\n## " + area + "\n\n| cause | kind | what to do |\n|---|---|---|\n"
		for _, s := range areas[area] {
			page += fmt.Sprintf("| `%s` | %s | %s |\n", s.ID, s.Kind, cell(s.Next+prefixed(": ", string(s.Command))))
		}
	}
	page += "\n## Before servers start\n\nA check of the [preflight](../how-to/preflight.md) ended the job.\n\n| check | cause | what to do |\n|---|---|---|\n"
	preflight := failure.Preflight()
	for _, check := range slices.Sorted(maps.Keys(preflight)) {
		page += fmt.Sprintf("| %s | `%s` | %s |\n", check, preflight[check].ID, cell(preflight[check].Next))
	}
	page += "\n## Before the first load\n\nA check of the API ([api_check](../how-to/check-server.md#before-a-benchmark)) ended the job, and no log says why " +
		"the server answers wrongly.\n\n| cause | what to do |\n|---|---|\n"
	page += fmt.Sprintf("| `%s` | %s |\n", failure.APICheck.ID, cell(failure.APICheck.Next))
	page += "\n## From the exit code alone\n\n| exit code | cause | what to do |\n|---|---|---|\n"
	endings := failure.Endings()
	for _, code := range slices.Sorted(maps.Keys(endings)) {
		page += fmt.Sprintf("| %d | `%s` | %s |\n", code, endings[code].ID, cell(endings[code].Next))
	}
	return page
}

var tomlBlock = regexp.MustCompile("(?s)```toml\n(.*?)```")

// Every TOML block of the documentation is a file that loads.
func TestDocsLoad(t *testing.T) {
	t.Parallel()
	pages := []string{"../../README.md"}
	require.NoError(t, filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	}))
	blocks := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		for i, m := range tomlBlock.FindAllStringSubmatch(string(data), -1) {
			file := scenario.File{Name: fmt.Sprintf("%s block %d", page, i+1), Data: []byte(m[1])}
			kind, err := scenario.Kind(file)
			require.NoError(t, err)
			switch kind {
			case "system":
				_, err = config.Parse(file.Name, file.Data)
			case "scenario":
				_, err = scenario.Load(file, nil, scenario.HookFiles{})
			default:
				_, err = scenario.LoadTest(file)
			}
			require.NoError(t, err)
			require.NoError(t, fitsSchema(t, kind, file.Data), file.Name)
			blocks++
		}
	}
	require.Greater(t, blocks, 2)
}

// fitsSchema reports how a definition file breaks the schema that editors check it with.
func fitsSchema(t *testing.T, kind string, data []byte) error {
	t.Helper()
	s, err := editor.Schema(kind)
	require.NoError(t, err)
	resolved, err := s.Resolve(nil)
	require.NoError(t, err)
	table, err := source.Parse("t.toml", data)
	require.NoError(t, err)
	return resolved.Validate(table.Plain())
}

var (
	link    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^):]+))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// anchors are the headings of a page as links name them.
func anchors(page string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		words := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		list = append(list, words)
	}
	return list
}

// Every relative link of the documentation leads to a file, and to a heading in it.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"../../*.md", "../../scenarios/*.md", docs + "/*.md", docs + "/*/*.md",
		docs + "/*/*/*.md"} {
		pages, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, page := range pages {
			data, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range link.FindAllStringSubmatch(string(data), -1) {
				target := filepath.Join(filepath.Dir(page), m[1])
				if m[1] == "" {
					target = page
				}
				_, err := os.Stat(target)
				require.NoError(t, err, "%s: %s", page, m[1])
				if m[2] != "" {
					linked, err := os.ReadFile(target)
					require.NoError(t, err)
					require.Contains(t, anchors(string(linked)), m[2], "%s: %s", page, m[1])
				}
			}
		}
	}
}

// What collect takes for a job's own judgement is the code that the job exits with.
func TestJudgedInvalid(t *testing.T) {
	t.Parallel()
	require.Equal(t, run.JudgedInvalid, exitInvalid)
}
