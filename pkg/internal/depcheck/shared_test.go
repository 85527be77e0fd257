package depcheck

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sharedNames are the functions that name a folder in which other users can write, with what keeps them
// from using what another user put there.
var sharedNames = map[string]string{
	"archive.Restore":                     "os.MkdirTemp: a new name",
	"archive.Write":                       "os.CreateTemp: a new name",
	"archive.tempDir":                     "os.MkdirTemp: a new name; of other folders it removes only what killed commands of this host left",
	"campaign.Client.thisMachine":         "regular.OwnDir and regular.FindOwnDir, in pkg/scheduler/local",
	"client.AIPerf":                       "os.MkdirTemp: a new name",
	"datafile.Cache.fetch":                "os.CreateTemp in a folder of this user's cache",
	"doctor.Doctor.node":                  "os.MkdirTemp in a folder of the system file: a new name",
	"doctor.Look":                         "how much space is there; it opens nothing",
	"doctor.lookFolder":                   "os.MkdirTemp: a new name",
	"job.Job.look":                        "how much space is there, and which segments are this user's; it opens nothing",
	"job.box.alone":                       "regular.Lock",
	"job.box.makeScratch":                 "os.MkdirTemp: a new name",
	"killtest.device":                     "tells names of devices from names of files; it opens nothing",
	"kube.tempDir":                        "os.MkdirTemp in the run directory: a new name",
	"load.Options.call":                   "os.MkdirTemp: a new name",
	"local.Local.makeState":               "os.MkdirTemp in the folder of regular.OwnDir",
	"pgtest.start":                        "os.MkdirTemp: a new name",
	"profllm.app.testOnly":                "os.CreateTemp: a new name",
	"profllm.dashboardServeCmd.openStore": "os.MkdirTemp: a new name",
	"profllm.evalGSM8KCmd.ask":            "os.MkdirTemp: a new name",
	"profllm.evalGSM8KCmd.files":          "regular.CheckOwner",
	"ray.rayStateFile":                    "regular.OwnFile",
	"sglang.benchServing":                 "os.MkdirTemp: a new name",
	"standin.container.run":               "os.MkdirTemp: a new name",
	"store.Store.dumpTo":                  "os.CreateTemp: a new name",
}

// sharing are the ways to a folder that users share.
var sharing = []string{"os.TempDir", "os.MkdirTemp", "os.CreateTemp"}

// A name in a folder that users share may be taken by another user first.
func TestSharedNames(t *testing.T) {
	used := map[string]bool{}
	for pkg, list := range sources(t) {
		for _, f := range list {
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Body == nil || !sharesFolder(fn.Body) {
					continue
				}
				name := functionName(pkg, fn)
				used[name] = true
				if sharedNames[name] == "" {
					t.Errorf("%s names a folder that users share: say in sharedNames what guards it", name)
				}
			}
		}
	}
	for name := range sharedNames {
		require.True(t, used[name], "%s names none any more", name)
	}
}

// sharesFolder reports whether a function names such a folder.
func sharesFolder(body ast.Node) (yes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				for _, name := range sharing {
					yes = yes || x.Name+"."+n.Sel.Name == name
				}
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				yes = yes || text == "/tmp" || strings.HasPrefix(text, "/tmp/") || strings.HasPrefix(text, "/dev/shm/")
			}
		}
		return true
	})
	return yes
}
