package depcheck

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// opening are the calls that wait for a pipe, read a device or take a file of any
// size. Whatever others can write is opened by pkg/regular.
var opening = []string{"os.Open", "os.OpenFile", "os.ReadFile", "os.DirFS", "os.OpenInRoot", "syscall.Open",
	"ioutil.ReadFile"}

// openers are the functions that may call them, with the reason.
var openers = map[string]string{
	"archive.copyFile":       "follows no link, waits for nothing and copies a known size only",
	"collect.FindLogs":       "a pipe that the user names, which waits for its writer",
	"doctor.Look":            "files of the kernel, which have no size",
	"host.Reader.read":       "files of the kernel, which have no size",
	"local.isClient":         "files of the kernel, which have no size",
	"job.Began":              "files of the kernel, which have no size",
	"job.Job.Node":           "files of the kernel, which have no size",
	"job.ephemeral":          "files of the kernel, which have no size",
	"job.interfaceOf":        "files of the kernel, which have no size",
	"node.Look.memory":       "files of the kernel, which have no size",
	"node.inUse":             "files of the kernel, which have no size",
	"node.machine":           "files of the kernel, which have no size",
	"node.readProcesses":     "files of the kernel, which have no size",
	"node.readRan":           "files of the kernel, which have no size",
	"node.small":             "files of the kernel, which have no size",
	"process.Boot":           "files of the kernel, which have no size",
	"process.stat":           "files of the kernel, which have no size",
	"redact.Values.Mask":     "writes where it has found something by pkg/regular",
	"regular.open":           "the opener itself",
	"process.Owner":          "files of the kernel, which have no size",
	"regular.OpenDir":        "a directory, to list it",
	"regular.OpenOf":         "the opener of files of one user",
	"regular.openLock":       "a file of this user, which it locks and does not read",
	"run.Marked":             "files of the kernel, which have no size",
	"testreport.readSeconds": "a file of the repository, which the caller names",
	"durable.SyncDir":        "a directory, to sync it",
}

func TestForeignFilesAreOpenedInOnePlace(t *testing.T) {
	skip := func(pkg string) bool { return pkg == "internal/slurmtest" || pkg == "await" } // read what the test wrote
	checkTable(t, openers, skip, openingCalls, "use pkg/regular, or give a reason in openers")
}

// valueName is package.variable, of the first.
func valueName(pkg string, values *ast.ValueSpec) string {
	return path.Base(pkg) + "." + values.Names[0].Name
}

// functionName is package.Type.Method or package.function.
func functionName(pkg string, fn *ast.FuncDecl) string {
	parts := []string{path.Base(pkg)}
	if fn.Recv != nil {
		of := fn.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok {
			parts = append(parts, id.Name)
		}
	}
	return strings.Join(append(parts, fn.Name.Name), ".")
}

// openingCalls are the uses of the functions, called or handed on. A file that is
// only created, appended to or locked is not read.
func openingCalls(body ast.Node) (found []string) {
	writing := map[ast.Expr]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 3 && mentions(call.Args[1], "O_CREATE", "O_WRONLY") {
			writing[call.Fun] = true
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || writing[sel] {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(opening, x.Name+"."+sel.Sel.Name) {
			found = append(found, x.Name+"."+sel.Sel.Name)
		}
		return true
	})
	return found
}

func mentions(e ast.Expr, names ...string) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && slices.Contains(names, id.Name) {
			yes = true
		}
		return true
	})
	return yes
}
