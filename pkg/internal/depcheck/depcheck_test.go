package depcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../../.."
	module = "github.com/profllm/profllm/"
)

var (
	row  = regexp.MustCompile("^\\| ((?:`[a-z0-9/-]+`(?:, )?)+) \\| [^|]+ \\| ([^|]+) \\|$")
	name = regexp.MustCompile("[a-z]+(?:/[a-z0-9-]+)*")
)

// table reads which of our packages each package may import; nil means all.
func table(t *testing.T) map[string][]string {
	data, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	may := map[string][]string{}
	for _, line := range strings.Split(string(data), "\n") {
		m := row.FindStringSubmatch(line)
		if m == nil || strings.Contains(m[1], "pkg/") {
			continue
		}
		allowed := []string{}
		switch m[2] {
		case "–":
		case "everything":
			allowed = nil
		default:
			allowed = name.FindAllString(m[2], -1)
		}
		for _, p := range name.FindAllString(m[1], -1) {
			may[p] = allowed
		}
	}
	return may
}

// sources parses the Go files below pkg and cmd, tests left out.
func sources(t *testing.T) map[string][]*ast.File {
	files := map[string][]*ast.File{}
	eachFile(t, func(pkg, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files[pkg] = append(files[pkg], f)
	})
	return files
}

// eachFile calls do for each Go file below pkg and cmd that is not a test, with its package as the table writes it.
func eachFile(t *testing.T, do func(pkg, file string)) {
	for _, top := range []string{"pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return fs.SkipDir
			}
			if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return nil
			}
			rel, err := filepath.Rel(root, filepath.Dir(file))
			do(strings.TrimPrefix(filepath.ToSlash(rel), "pkg/"), file)
			return err
		})
		require.NoError(t, err)
	}
}

func TestImportsFollowTheTable(t *testing.T) {
	may := table(t)
	require.Contains(t, may, "plan", "the table was found")
	files := sources(t)
	for pkg, list := range files {
		allowed, known := may[pkg]
		require.True(t, known, "ARCHITECTURE.md has no row for %s", pkg)
		for _, f := range list {
			for _, spec := range f.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				ours, ok := strings.CutPrefix(imported, module+"pkg/")
				if ok && allowed != nil && !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s, which ARCHITECTURE.md does not allow", pkg, ours)
				}
			}
		}
	}
	for pkg := range may {
		require.Contains(t, files, pkg, "ARCHITECTURE.md has a row for a package that is not there")
	}
}

// Only cmd ends the process, reads its environment or writes to its streams; tier, for tests, reads how much to test.
func TestOnlyCmdTouchesTheProcess(t *testing.T) {
	forbidden := []string{"Exit", "Getenv", "LookupEnv", "Environ", "Stdin", "Stdout", "Stderr", "Args", "Setenv"}
	for pkg, list := range sources(t) {
		if strings.HasPrefix(pkg, "cmd/") || pkg == "tier" {
			continue
		}
		for _, f := range list {
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" && slices.Contains(forbidden, sel.Sel.Name) {
					t.Errorf("%s uses os.%s", path.Join("pkg", pkg), sel.Sel.Name)
				}
				return true
			})
		}
	}
}

// The packages that decide and judge see neither clock nor process.
func TestPurePackages(t *testing.T) {
	forbidden := map[string]bool{"os": true, "os/exec": true, "net": true, "net/http": true, "syscall": true}
	files := sources(t)
	for _, pkg := range []string{"source", "hostlist", "config", "scenario", "plan", "render", "result", "metric",
		"report"} {
		for _, f := range files[pkg] {
			for _, spec := range f.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				require.False(t, forbidden[imported], "%s imports %s", pkg, imported)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" &&
						slices.Contains([]string{"Now", "Since", "Sleep"}, sel.Sel.Name) {
						t.Errorf("%s uses time.%s", pkg, sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// A test that waits does so with await, which has no time limit of its own: the one of
// Eventually is too short on some machine, and its goroutine outlives it.
func TestWaitsHaveNoLimits(t *testing.T) {
	for _, top := range []string{"pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			data, err := os.ReadFile(file)
			for n, line := range strings.Split(string(data), "\n") {
				if eventually.MatchString(line) {
					t.Errorf("%s:%d: %s\n\thint: await.True, await.File or await.Text", file, n+1,
						strings.TrimSpace(line))
				}
			}
			return err
		})
		require.NoError(t, err)
	}
}

var eventually = regexp.MustCompile(`\b(require|assert)\.Eventually(WithT|f)?\(`)

// profllm is static: whatever needs a C library is in profllm-nvml.
func TestOnlyOneProgramHasCgo(t *testing.T) {
	for pkg, list := range sources(t) {
		for _, f := range list {
			for _, spec := range f.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				if (imported == "C" || strings.HasPrefix(imported, "github.com/NVIDIA/")) && pkg != "gpu/nvml" &&
					pkg != "cmd/profllm-nvml" {
					t.Errorf("%s imports %s", pkg, imported)
				}
				if imported == module+"pkg/gpu/nvml" && pkg != "cmd/profllm-nvml" {
					t.Errorf("%s imports %s: it asks profllm-nvml instead", pkg, imported)
				}
			}
		}
	}
}

// A reader finds the comment of a package without a search: in doc.go, or in the file with the package's name.
func TestPackageCommentsHaveTheirPlace(t *testing.T) {
	comments := map[string][]string{}
	eachFile(t, func(pkg, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		require.NoError(t, err)
		found := comments[pkg]
		if f.Doc != nil {
			found = append(found, filepath.Base(file))
		}
		comments[pkg] = found
	})
	for pkg, found := range comments {
		own := path.Base(pkg)
		if strings.HasPrefix(pkg, "cmd/") {
			own = "main"
		}
		allowed := []string{"doc.go", own + ".go", own + "_linux.go"}
		if len(found) != 1 || !slices.Contains(allowed, found[0]) {
			t.Errorf("%s: package comments in %q, not in one of %q", pkg, found, allowed)
		}
	}
}
