package depcheck

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sharedNames are the functions that name a folder in which other users can write, with what keeps them
// from using what another user put there.
var sharedNames = map[string]string{
	"archive.Restore":                     "os.MkdirTemp: a new name",
	"archive.Write":                       "os.CreateTemp: a new name",
	"archive.tempDir":                     "os.MkdirTemp: a new name; of other folders it removes only what killed commands of this host left",
	"campaign.Client.thisMachine":         "regular.OwnDir and regular.FindOwnDir, in pkg/scheduler/local",
	"config.Kubernetes.checkCache":        "a place in a container",
	"dynamo.defaultStorage":               "the step that makes the run's folder below it checks its owner, see makeStorage",
	"job.shm":                             "how much space is there, and which segments are this user's; it opens nothing",
	"local.leasesDir":                     "regular.OwnFile, regular.OpenOf and regular.Lock",
	"manifest.newDeployment":              "a place in a container",
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
	checkTable(t, sharedNames, nil, sharedFolders, "say in sharedNames what guards a name in a folder that users share")
}

// sharedFolders are the ways to such a folder.
func sharedFolders(body ast.Node) (found []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(sharing, x.Name+"."+n.Sel.Name) {
				found = append(found, x.Name+"."+n.Sel.Name)
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if err == nil && n.Kind == token.STRING &&
				(text == "/tmp" || strings.HasPrefix(text, "/tmp/") || strings.HasPrefix(text, "/dev/shm")) {
				found = append(found, n.Value)
			}
		}
		return true
	})
	return found
}
