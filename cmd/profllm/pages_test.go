package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page is checked by running it. A block marked "console" holds commands behind "$ "
// and what they print. A TOML or JSON block behind the comment "file: NAME" is a file that the
// commands find. Each page has a folder of its own; behind the comment "results: demo"
// it holds the rehearsed demonstration.
var (
	consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```")
	pageFile     = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n+```(?:toml|json)\n(.*?)```")
	fileName     = regexp.MustCompile(`<!-- file: \S+ -->`)
)

const (
	wantsDemo  = "<!-- results: demo -->"
	rehearses  = "bin/profllm rehearse"
	leftOut    = "…" // a line of a page that stands for any number of lines
	pageLocale = "C.UTF-8"
)

// shownCommand is a command of a page, and the lines that the page shows below it.
type shownCommand struct {
	command string
	shown   []string
}

// readConsole reads the commands of a console block.
func readConsole(block string) []shownCommand {
	var list []shownCommand
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, shownCommand{command: command})
		} else if n := len(list); n > 0 {
			list[n-1].shown = append(list[n-1].shown, line)
		}
	}
	return list
}

// varying are the parts of an output that differ from one run of the same command to
// the next. Counts below 1000 are the same each time, and are compared.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[_ T]\d\d[-:]\d\d[-:]\d\d`), "TIME"},
	{regexp.MustCompile(`\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\d{8}_\d{6}_[0-9a-f]{6}`), "RUN"},
	{regexp.MustCompile(`[+-]?\b\d+\.\d+\b`), "N"},
	{regexp.MustCompile(`\b[0-9a-f]{12,64}\b`), "HASH"},
	{regexp.MustCompile(`local-\S+`), "JOB"},
	{regexp.MustCompile(`\b\d{4,}\b`), "N"},
	{regexp.MustCompile(`\b(N|\d+) ?(ms|s|m|min|h|seconds|minutes)\b`), "DURATION"},
	{regexp.MustCompile(`─+`), "─"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// withoutVarying is a line without what varies.
func withoutVarying(line string) string {
	for _, v := range varying {
		line = v.pattern.ReplaceAllString(line, v.instead)
	}
	return strings.TrimSpace(line)
}

// sameLines says whether a page shows what a command printed.
func sameLines(shown, printed []string) bool {
	if len(shown) == 0 {
		return len(printed) == 0
	}
	if shown[0] == leftOut {
		for skip := range len(printed) + 1 {
			if sameLines(shown[1:], printed[skip:]) {
				return true
			}
		}
		return false
	}
	return len(printed) > 0 && withoutVarying(shown[0]) == withoutVarying(printed[0]) &&
		sameLines(shown[1:], printed[1:])
}

// pageFolder is the folder in which the commands of pages run.
type pageFolder struct{ dir string }

func newPageFolder(t *testing.T) pageFolder {
	t.Helper()
	b := pageFolder{t.TempDir()}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "bin"), 0o755))
	require.NoError(t, os.Symlink(binary, filepath.Join(b.dir, "bin", "profllm")))
	for _, name := range []string{"scenarios", "conf", "examples"} {
		require.NoError(t, os.Symlink(filepath.Join(root, name), filepath.Join(b.dir, name)))
	}
	return b
}

// run runs a command as a reader would type it, and returns what it prints.
func (b pageFolder) run(t *testing.T, command string) []string {
	t.Helper()
	if strings.Contains(command, " rehearse") {
		rehearsalSlots.take()
		defer rehearsalSlots.give()
	}
	if demo, _ := filepath.Glob(filepath.Join(b.dir, "results", "demo_*")); len(demo) == 1 {
		name, _, _ := strings.Cut(filepath.Base(demo[0]), ".")
		command = regexp.MustCompile(`demo_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d`).ReplaceAllString(command, name)
	}
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir = b.dir
	cmd.Env = []string{"PATH=" + filepath.Join(b.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + b.dir,
		"LANG=" + pageLocale, "TZ=UTC", "USER=user"}
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	t.Logf("$ %s\n%s", command, out)
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(strings.ReplaceAll(string(out), b.dir, "/home/user"), "\n"), "\n")
}

// pagesByName are the documentation by the path from the root of the repository.
func pagesByName(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	add := func(file string) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		name, err := filepath.Rel("../..", file)
		require.NoError(t, err)
		list[name] = string(data)
	}
	add("../../README.md")
	add("../../scenarios/README.md")
	require.NoError(t, filepath.WalkDir(docs, func(file string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			add(file)
		}
		return err
	}))
	return list
}

// Every command that a page shows with its output prints what the page says.
// -update renews the output, except where a page leaves lines out.
func TestPagesRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it rehearses the demonstration and more")
	}
	demo := newPageFolder(t)
	rehearsed := demo.run(t, rehearses)
	for name, text := range pagesByName(t) {
		if !consoleBlock.MatchString(text) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPageFolder(t)
			if strings.Contains(text, wantsDemo) {
				require.NoError(t,
					os.CopyFS(filepath.Join(b.dir, "results"), os.DirFS(filepath.Join(demo.dir, "results"))))
			}
			for _, m := range pageFile.FindAllStringSubmatch(text, -1) {
				require.NoError(t, os.WriteFile(filepath.Join(b.dir, m[1]), []byte(m[2]), 0o644))
			}
			require.Len(t, pageFile.FindAllString(text, -1), len(fileName.FindAllString(text, -1)),
				"a file is followed by a TOML block")
			renewed := consoleBlock.ReplaceAllStringFunc(text, func(block string) string {
				return b.play(t, consoleBlock.FindStringSubmatch(block)[1], rehearsed)
			})
			if *update && renewed != text {
				require.NoError(t, os.WriteFile(filepath.Join("../..", name), []byte(renewed), 0o644))
			}
		})
	}
}

// play runs the commands of a block and returns the block with their output. The
// demonstration was rehearsed already.
func (b pageFolder) play(t *testing.T, block string, rehearsed []string) string {
	t.Helper()
	list := readConsole(block)
	require.NotEmpty(t, list, "a console block has a command behind \"$ \"")
	out := "```console\n"
	for _, s := range list {
		printed := rehearsed
		if s.command != rehearses {
			printed = b.run(t, s.command)
		}
		shown := s.shown
		if !sameLines(shown, printed) {
			if *update && !slices.Contains(shown, leftOut) {
				shown = printed
			} else {
				t.Errorf("$ %s\nthe page shows:\n%s\nit prints:\n%s", s.command, strings.Join(shown, "\n"),
					strings.Join(printed, "\n"))
			}
		}
		out += "$ " + s.command + "\n"
		for _, line := range shown {
			out += strings.TrimRight(line, " ") + "\n"
		}
	}
	return out + "```"
}

func TestPageComparison(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		shown, printed string
		same           bool
	}{
		{"results/demo_2026-11-22_03-06-07: 77 entries, 411488 bytes", "results/demo_2027-01-02_00-00-00: 77 entries, 5000 bytes", true},
		{"64/64  12.17", "64/64 9.8", true},
		{"64/64  12.17", "80/80  12.17", false},
		{"1,166.7590303245877,0/2", "1,167.27986026845622,0/2", true},
		{"valid", "suspect", false},
		{"a\n…\nd", "a\nb\nc\nd", true},
		{"a\n…\nd", "a\nb\nc", false},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
	} {
		require.Equal(t, x.same, sameLines(strings.Split(x.shown, "\n"), strings.Split(x.printed, "\n")), "%q and %q",
			x.shown, x.printed)
	}
	require.Equal(t, []shownCommand{{"a", []string{"1", "2"}}, {"b", nil}}, readConsole("$ a\n1\n2\n$ b\n"))
}

// The gallery lists every shipped scenario, with its tests, its nodes and a plan that
// fits them.
func TestGallery(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../scenarios/README.md")
	require.NoError(t, err)
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^\| \[(\S+\.toml)\]\((\S+)\) \| (\d+) \| (.+?) \|`).
		FindAllStringSubmatch(string(data), -1) {
		require.Equal(t, m[1], filepath.Base(m[2]))
		file := filepath.Join("scenarios", m[2])
		listed = append(listed, file)
		o := profllm(t, "../..", nil, "slurm", "dry-run", file, "--system", "conf/slurm-pyxis.toml", "--output", "json")
		require.Equal(t, exitOK, o.code)
		var plans []struct {
			Schema string
			Job    struct{ Nodes int }
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &plans))
		var nodes []int
		for _, p := range plans {
			if strings.HasPrefix(p.Schema, "profllm.plan/") {
				nodes = append(nodes, p.Job.Nodes)
			}
		}
		require.Equal(t, m[3], strconv.Itoa(len(nodes)), "%s: runs", m[1])
		require.Equal(t, m[4], span(slices.Min(nodes), slices.Max(nodes)), "%s: nodes", m[1])
	}
	var shipped []string
	for _, pattern := range []string{"scenarios/*.toml", "examples/pd-curve/*.toml"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		for _, file := range files {
			name, err := filepath.Rel("../..", file)
			require.NoError(t, err)
			shipped = append(shipped, name)
		}
	}
	require.Equal(t, shipped, listed)
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}
