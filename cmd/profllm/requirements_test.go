package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	checkout     = "../.."
	meaningsFile = "testdata/requirements.txt" // a line for each id: id, tab, meaning
	maxMeaning   = 110                         // characters
)

// requirementAreas are the headings of the page.
var requirementAreas = map[string]string{
	"API":  "the dashboard's API",
	"BEN":  "suites of loads and their files",
	"C":    "examples of CloudAI's behaviour",
	"CD":   "defects of CloudAI that profllm avoids",
	"CFG":  "options of the engine",
	"CTR":  "containers",
	"DATA": "export, storage, migration and backup of records",
	"DB":   "the table of runs",
	"DASH": "the dashboard",
	"DEP":  "deployment",
	"SM":   "measures of success",
	"UI":   "the dashboard's page",
	"GEN":  "what it is for",
	"HLT":  "readiness",
	"HW":   "hardware",
	"IMG":  "images",
	"LBEN": "compatibility with vLLM's benchmark",
	"LIB":  "library functions",
	"LRES": "GPUs, ports and processes",
	"MET":  "definitions of metrics",
	"OFF":  "benchmarks without a server",
	"OUT":  "reported metrics",
	"P":    "NVIDIA Dynamo and AIPerf",
	"PAR":  "parallelism and GPUs",
	"PERF": "live monitoring",
	"PRF":  "profilers of servers",
	"PL-D": "defects of other benchmark tools that profllm avoids",
	"PL-F": "causes of failures",
	"PL-G": "containers, networks and nodes",
	"PL-I": "exchange with other programs",
	"PL-Q": "statistics",
	"PL-S": "Slurm",
	"PL-V": "validity of results",
	"SCH":  "fields of result.json",
	"SIG":  "signals and clean-up",
	"SRV":  "servers",
	"SWP":  "sweeps of loads and servers",
	"TST":  "checks of a server's API",
	"U":    "tests of NVIDIA Dynamo in the format of CloudAI",
	"UC":   "use cases",
	"VLM":  "vLLM",
}

// allowedPages may name ids besides the generated page.
var allowedPages = []string{"docs/reference/requirements.md", "docs/explanation/cloudai-defects.md", "CONTRIBUTING.md"}

var (
	requirementPattern = regexp.MustCompile(`\b(PL-[A-Z]|C\.|[A-Z]{1,4}-)(\d+)\b`)
	testName           = regexp.MustCompile(`^(Test|Fuzz|Benchmark)`)
)

type requirementID struct {
	prefix string
	number int
}

func (r requirementID) String() string {
	switch {
	case r.prefix == "C":
		return fmt.Sprintf("C.%d", r.number)
	case strings.Contains(r.prefix, "-"):
		return fmt.Sprintf("%s%d", r.prefix, r.number)
	}
	return fmt.Sprintf("%s-%d", r.prefix, r.number)
}

func compareIDs(a, b requirementID) int {
	return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.number, b.number))
}

// idsIn lists the ids in a text. Leading zeros of their numbers do not matter.
func idsIn(text string) []requirementID {
	var ids []requirementID
	for _, m := range requirementPattern.FindAllStringSubmatch(text, -1) {
		number, err := strconv.Atoi(m[2])
		if err == nil {
			ids = append(ids, requirementID{strings.TrimRight(m[1], "-."), number})
		}
	}
	return ids
}

// covered says that a test names an id.
type covered struct {
	id      requirementID
	pkg     string // folder below the repository
	test    string // function, or file name where the test is not in Go
	comment string // file:line
}

// coversOf returns what the covers comments of a file name. A comment in a Go file
// belongs to the test it documents or stands in.
func coversOf(name string, data []byte) ([]covered, error) {
	var out []covered
	add := func(test string, line int, text string) error {
		_, list, found := strings.Cut(text, "covers:")
		if !found {
			return nil
		}
		at := fmt.Sprintf("%s:%d", name, line)
		ids := idsIn(list)
		if len(ids) == 0 {
			return fmt.Errorf("%s: a covers comment without an id", at)
		}
		for _, id := range ids {
			out = append(out, covered{id, path.Dir(name), test, at})
		}
		return nil
	}
	if !strings.HasSuffix(name, ".go") {
		line := 0
		for text := range strings.Lines(string(data)) {
			line++
			if err := add(path.Base(name), line, text); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, group := range f.Comments {
		if !strings.Contains(group.Text(), "covers:") {
			continue
		}
		test := testOf(f, group)
		if test == "" {
			return nil, fmt.Errorf("%s: a covers comment that belongs to no test", set.Position(group.Pos()))
		}
		for _, c := range group.List {
			for i, text := range strings.Split(c.Text, "\n") {
				if err := add(test, set.Position(c.Pos()).Line+i, text); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// testOf returns the name of the test function that a comment documents or stands in.
func testOf(f *ast.File, group *ast.CommentGroup) string {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && testName.MatchString(fn.Name.Name) &&
			(fn.Doc == group || fn.Pos() < group.Pos() && group.End() <= fn.End()) {
			return fn.Name.Name
		}
	}
	return ""
}

// eachFile calls f with the files of the repository, named with slashes, without
// build outputs and golden files.
func eachFile(t *testing.T, f func(name string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(checkout, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(checkout, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !d.IsDir() {
			if d.Type().IsRegular() {
				f(name)
			}
			return nil
		}
		base := path.Base(name)
		if base == "node_modules" || strings.HasSuffix(name, "testdata/golden") ||
			slices.Contains([]string{".git", "bin", "dist", "results", "shared"}, name) {
			return fs.SkipDir
		}
		return nil
	}))
}

func isTest(name string) bool {
	for _, suffix := range []string{"_test.go", ".txtar", "_test.sh", ".spec.ts"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// allCovers returns what the tests of the repository name.
func allCovers(t *testing.T) []covered {
	t.Helper()
	var all []covered
	eachFile(t, func(name string) {
		if !isTest(name) {
			return
		}
		data, err := os.ReadFile(filepath.Join(checkout, name))
		require.NoError(t, err)
		if !bytes.Contains(data, []byte("covers:")) {
			return
		}
		found, err := coversOf(name, data)
		require.NoError(t, err)
		all = append(all, found...)
	})
	require.NotEmpty(t, all)
	return all
}

// meanings reads the meanings, which are sorted.
func meanings(t *testing.T) map[requirementID]string {
	t.Helper()
	data, err := os.ReadFile(meaningsFile)
	require.NoError(t, err)
	all := map[requirementID]string{}
	var last requirementID
	for line := range strings.Lines(string(data)) {
		id, meaning, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		ids := idsIn(id)
		require.Len(t, ids, 1, "%s: %q", meaningsFile, line)
		require.Equal(t, ids[0].String(), id, meaningsFile)
		require.Negative(t, compareIDs(last, ids[0]), "%s: %s stands behind %s", meaningsFile, id, last)
		require.LessOrEqual(t, utf8.RuneCountInString(meaning), maxMeaning, "%s: %s", meaningsFile, id)
		require.Regexp(t, `^\S[^\t|]*\.$`, meaning, "%s: %s is not a sentence", meaningsFile, id)
		last = ids[0]
		all[last] = meaning
	}
	return all
}

// requirementsPage lists the ids that tests name, with the tests.
func requirementsPage(t *testing.T) string {
	means := meanings(t)
	tests := map[requirementID]map[string][]string{} // by folder
	for _, c := range allCovers(t) {
		if tests[c.id] == nil {
			tests[c.id] = map[string][]string{}
		}
		if !slices.Contains(tests[c.id][c.pkg], c.test) {
			tests[c.id][c.pkg] = append(tests[c.id][c.pkg], c.test)
		}
	}
	var b strings.Builder
	b.WriteString(generated + `# Requirements

Every test that proves a requirement names it in a comment, such as ` + "`// covers: PL-V3`" +
		`. This page says what each of these ids means and lists the tests that name it.
Tests called ` + "`TestSlurm…`" + ` run on a real Slurm (` + "`make lab-up`" + `), tests called ` + "`TestVLLM…`" +
		` run the real vLLM. No test names a number that is missing here.
`)
	area := ""
	for _, id := range slices.SortedFunc(maps.Keys(tests), compareIDs) {
		if id.prefix != area {
			area = id.prefix
			fmt.Fprintf(&b, "\n## %s: %s\n\n| id | meaning | tests |\n|---|---|---|\n", area, requirementAreas[area])
		}
		var cells []string
		for _, pkg := range slices.Sorted(maps.Keys(tests[id])) {
			slices.Sort(tests[id][pkg])
			cells = append(cells, fmt.Sprintf("`%s`: `%s`", pkg, strings.Join(tests[id][pkg], "`, `")))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", id, means[id], strings.Join(cells, "; "))
	}
	return b.String()
}

// Every id that a test names has a meaning, and every meaning a test. Program text
// and documentation explain things in words instead of ids.
func TestRequirements(t *testing.T) {
	t.Parallel()
	means := meanings(t)
	named := map[requirementID]bool{}
	for _, c := range allCovers(t) {
		named[c.id] = true
		if means[c.id] == "" {
			t.Errorf("%s: %s has no meaning: add a line to cmd/profllm/%s, then make docs", c.comment, c.id,
				meaningsFile)
		}
		if requirementAreas[c.id.prefix] == "" {
			t.Errorf("%s: %s has no heading in requirementAreas", c.comment, c.id)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(means), compareIDs) {
		if !named[id] {
			t.Errorf("cmd/profllm/%s: no test names %s", meaningsFile, id)
		}
	}
	for area := range requirementAreas {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(named)),
			func(id requirementID) bool { return id.prefix == area }), "no id is under heading %s", area)
	}

	read := 0
	eachFile(t, func(name string) {
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		page := strings.HasSuffix(name, ".md") && !strings.Contains(name, "testdata/") &&
			!slices.Contains(allowedPages, name)
		if !source && !page {
			return
		}
		read++
		data, err := os.ReadFile(filepath.Join(checkout, name))
		require.NoError(t, err)
		for _, id := range strayIDs(string(data)) {
			t.Errorf("%s names %s, which means nothing to its reader", name, id)
		}
	})
	require.Greater(t, read, 100)
}

// strayIDs lists ids under the headings; SHA-256 and the like are none.
func strayIDs(text string) []requirementID {
	return slices.DeleteFunc(idsIn(text), func(id requirementID) bool { return requirementAreas[id.prefix] == "" })
}

func TestRequirementsOfAFile(t *testing.T) {
	t.Parallel()
	const source = `package x

// covers: PL-S5, CD-012
func TestDocumented(t *testing.T) {}

// Two lines say it.
//
// covers: C.4 (names)
// covers: SCH-7 SCH-8
func BenchmarkTwice(b *testing.B) {}

func TestTable(t *testing.T) {
	for range []int{
		1, // covers: PL-V1
		2,
	} {
		t.Run("sub", func(t *testing.T) {
			/* first
			covers: PL-V2 */
		})
	}
	_ = "covers: PL-V3"
}

func helper() {}
`
	got, err := coversOf("pkg/x/x_test.go", []byte(source))
	require.NoError(t, err)
	var lines []string
	for _, c := range got {
		lines = append(lines, strings.Join([]string{c.comment, c.id.String(), c.pkg, c.test}, " "))
	}
	require.Equal(t, []string{
		"pkg/x/x_test.go:3 PL-S5 pkg/x TestDocumented", "pkg/x/x_test.go:3 CD-12 pkg/x TestDocumented",
		"pkg/x/x_test.go:8 C.4 pkg/x BenchmarkTwice", "pkg/x/x_test.go:9 SCH-7 pkg/x BenchmarkTwice", "pkg/x/x_test.go:9 SCH-8 pkg/x BenchmarkTwice",
		"pkg/x/x_test.go:14 PL-V1 pkg/x TestTable",
		"pkg/x/x_test.go:19 PL-V2 pkg/x TestTable",
	}, lines)

	got, err = coversOf("script/run_once.txtar", []byte("# a script\n# covers: PL-S5\n"))
	require.NoError(t, err)
	require.Equal(t, []covered{{requirementID{"PL-S", 5}, "script", "run_once.txtar", "script/run_once.txtar:2"}}, got)

	for text, want := range map[string]string{
		"package x\n\n// covers: the design\nfunc TestX() {}\n":           "x_test.go:3: a covers comment without an id",
		"package x\n\n// covers: PL-V1\nfunc helper() {}\n":               "x_test.go:3:1: a covers comment that belongs to no test",
		"package x\n\n// covers: PL-V1\nvar a = 1\n\nfunc TestX() {}\n":   "belongs to no test",
		"package x\n\nfunc TestX() {}\n\n// covers: PL-V1\n":              "belongs to no test",
		"package x\n\n// covers: PL-V1\nfunc (x suite) TestX() {}\n":      "belongs to no test",
		"package x\n\n// covers: PL-V1\n\n// Another.\nfunc TestX() {}\n": "belongs to no test",
	} {
		_, err := coversOf("x_test.go", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
	require.Empty(t, strayIDs("SHA-256, UTF-8, GPT-2 and n-1"))
	require.Equal(t, []requirementID{{"PL-V", 16}, {"CTR", 9}}, strayIDs("invalid (PL-V016), CTR-009"))
}
