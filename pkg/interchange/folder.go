package interchange

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A File is a file of a folder and what was read of it.
type File struct {
	Path   string // below the folder's parent, with slashes
	Source string // where it lies; the caller's
	Alone  bool   // it was named itself, not its folder
	Format Format
	Items  []Item
}

// Once leaves out what programs write a second time: the summaries of a sweep
// beside the files of its runs, results of single loads below a roll-up of
// srt-slurm, PyTorch records beside the result that they were made of. Files that
// were named themselves stay. It returns what it left out, and why.
func Once(files []File) (kept []File, left []string) {
	runs := map[string]bool{}  // folder/number of single runs of sweeps
	below := map[string]bool{} // folders that hold some, themselves or in theirs
	results := map[string]bool{}
	rollups := map[string]bool{}
	for _, f := range files {
		dir := path.Dir(f.Path)
		switch {
		case f.Format == SRTSlurm:
			rollups[dir] = true
		case f.Format == VLLMServe && !isSummary(f.Path):
			results[strings.TrimSuffix(f.Path, ".json")] = true
			for _, it := range f.Items {
				if n, ok := it.run(); ok {
					runs[dir+"/"+n] = true
				}
			}
		}
		if f.Format == VLLMServe && path.Ext(f.Path) != ".csv" {
			for d := dir; ; d = path.Dir(d) {
				below[d] = true
				if d == path.Dir(d) {
					break
				}
			}
		}
	}
	for _, f := range files {
		dir, base := path.Dir(f.Path), path.Base(f.Path)
		switch {
		case f.Alone:
		case f.Format == VLLMServe && base == "warmup.json":
			left = append(left, f.Path+": a sweep's warm-up, which measured nothing")
			continue
		case f.Format == VLLMServe && strings.HasPrefix(base, "SLA--"):
			left = append(left, f.Path+": the runs of a search, which have their own files")
			continue
		case f.Format == VLLMServe && path.Ext(base) == ".csv" && below[dir]:
			continue // the same runs, without what a CSV cannot hold
		case f.Format == VLLMServe && base == "summary.json":
			f.Items = slices.DeleteFunc(slices.Clone(f.Items), func(it Item) bool {
				n, ok := it.run()
				return ok && runs[dir+"/"+n]
			})
			if len(f.Items) == 0 {
				continue
			}
		case f.Format == VLLMServe && (rollups[dir] || rollups[path.Dir(dir)]):
			left = append(left,
				f.Path+": included in the roll-up above it; name this file to import more of its numbers")
			continue
		case f.Format == PyTorch && results[strings.TrimSuffix(f.Path, ".pytorch.json")]:
			left = append(left, f.Path+": the same benchmark as the result beside it")
			continue
		}
		kept = append(kept, f)
	}
	return kept, left
}

func isSummary(file string) bool {
	return path.Base(file) == "summary.json" || path.Ext(file) == ".csv"
}

// run is the number of a run of a sweep.
func (it *Item) run() (string, bool) {
	if len(it.Name) != 2 || it.Record.Provenance.Imported.From != sweepProgram {
		return "", false
	}
	_, err := strconv.Atoi(it.Name[1])
	return it.Name[1], err == nil
}

// Place says in which folder a result is kept: that of its file, and its own name.
// The runs of one combination of a sweep have its folder's name and their numbers,
// so that a report takes them for iterations of a test.
func (f File) Place(it Item) []string {
	var at []string
	if dir := path.Dir(f.Path); !f.Alone && dir != "." {
		at = strings.Split(dir, "/")
	}
	if n, ok := it.run(); ok {
		switch folder := path.Base(path.Dir(f.Path)); {
		case path.Ext(f.Path) == ".csv":
			at = append(at, it.Name...)
		case f.Alone && strings.Contains(folder, "--"):
			at = append(at, folder, n)
		case f.Alone:
			at = append(at, it.Name...)
		default:
			at = append(at, n)
		}
	} else {
		stem := strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path))
		at = append(append(at, strings.TrimSuffix(stem, ".pytorch")), it.Name...)
	}
	for i := range at {
		at[i] = element(at[i])
	}
	return at
}

// taken are names that mean something else in a run directory or above it.
var taken = []string{"raw", "logs", "attempts", "pre_test", "post_test", "telemetry", "bin", "left", "definitions",
	"batches"}

// longestName bounds a name; file systems take 255 bytes.
const longestName = 120

// element makes a name of a folder.
func element(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == '/' || r == '\\' || r == 0x7f || r == 0xfffd {
			return '_'
		}
		return r
	}, name)
	name = strings.TrimSpace(strings.ReplaceAll(name, ".partial-", "_partial-"))
	if strings.HasPrefix(name, ".") {
		name = "_" + name[1:]
	}
	switch {
	case name == "":
		return "_"
	case len(name) > longestName:
		return strings.ToValidUTF8(name[:longestName-9], "") + "-" + digestOf(name)[:8]
	case slices.Contains(taken, name):
		return name + "_"
	}
	return name
}

// RunID names a record: as its file does, or by the file's digest.
func (it *Item) RunID(digest string) string {
	if id := element(it.ID); it.ID != "" && id == it.ID {
		return id
	}
	return fmt.Sprintf("import_%.12s_%d", strings.TrimPrefix(digest, "sha256:"), it.Index)
}

// FileName makes the name of a file of some text.
func FileName(text string) string { return strings.ReplaceAll(element(text), " ", "_") }
