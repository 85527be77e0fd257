package depcheck

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// following are the calls that write through a link, or into a pipe or a device, in the place of a file.
var following = []string{"os.WriteFile", "os.Create", "os.OpenFile", "os.Chmod", "os.Chtimes", "os.Truncate", "os.Chown"}

// followers are the functions that may call them, with the reason. Whatever lies below a run is written by
// pkg/run, which follows no link.
var followers = map[string]string{
	"doctor.Doctor.node":    "in a folder that os.MkdirTemp has just made",
	"doctor.Folder.try":     "in a folder that os.MkdirTemp has just made",
	"job.box.clean":         "a container's own scratch folder, of os.MkdirTemp; WalkDir calls no link a folder",
	"job.box.enroot":        "a container's own scratch folder, of os.MkdirTemp",
	"job.box.mountPoints":   "a container's own scratch folder, of os.MkdirTemp",
	"job.makeCache":         "a folder that os.Mkdir has just made",
	"kube.fetch.keep":       "in a folder that os.MkdirTemp has just made",
	"kube.fetch.log":        "in a folder that os.MkdirTemp has just made",
	"kube.fetch.records":    "a file that run.WriteJSON has just made",
	"local.Local.Submit":    "in the folder of regular.OwnDir",
	"local.localJob.task":   "in the folder of regular.OwnDir",
	"local.writeLeases":     "a file that was just renamed to this name, in a folder with the sticky bit",
	"run.privateDir":        "run.CheckDir",
	"testreport.writeLines": "a file that the caller names",
	"upload.reader.file":    "in a folder that os.Mkdir has just made",
}

// standIns take the place of other programs, which do the same, or are helpers of tests.
var standIns = []string{"sim", "standin", "slurmtest", "kubetest", "pgtest", "reporttest"}

// A link in a folder that others can write leads no write to a file of this user.
func TestWritesFollowNoLink(t *testing.T) {
	isStandIn := func(pkg string) bool {
		top, _, _ := strings.Cut(pkg, "/")
		return slices.Contains(standIns, top) || slices.Contains(standIns, path.Base(pkg))
	}
	checkTable(t, followers, isStandIn, followingCalls, "use pkg/run or pkg/durable, or say in followers what guards it")
}

// followingCalls are the calls, but for those that make a new file, follow no link or only read.
func followingCalls(body ast.Node) (found []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		name := x.Name + "." + sel.Sel.Name
		for _, one := range following {
			if name == one && (name != "os.OpenFile" || mentions(call.Args[1], "O_CREATE", "O_WRONLY", "O_RDWR", "O_APPEND") &&
				!mentions(call.Args[1], "O_EXCL", "O_NOFOLLOW")) {
				found = append(found, name)
			}
		}
		return true
	})
	return found
}
