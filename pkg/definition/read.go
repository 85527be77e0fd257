package definition

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
)

// ReadFile reads a definition file that a user named. kind says what the file is to be, such as
// "scenario"; the error of a folder names the files in it.
func ReadFile(kind, path string) ([]byte, error) {
	data, err := regular.ReadFile(path)
	if info, e := os.Stat(path); errors.Is(err, regular.ErrKind) && e == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, not a %s file\n\thint: %s", path, kind, filesIn(path, kind))
	}
	return data, err
}

// mostNamed is how many files a hint names.
const mostNamed = 8

// filesIn says which files of a kind a folder has.
func filesIn(dir, kind string) string {
	files, _ := filepath.Glob(filepath.Join(globbed.Replace(dir), "*.toml"))
	var names []string
	for _, name := range files {
		data, err := regular.ReadFile(name)
		if is, e := Kind(name, data); err == nil && e == nil && is == kind {
			names = append(names, filepath.Base(name))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("name a %s file; the folder has none", kind)
	}
	more := ""
	if len(names) > mostNamed {
		names, more = names[:mostNamed], fmt.Sprintf(" and %d more", len(names)-mostNamed)
	}
	return fmt.Sprintf("name a %s file in it: %s%s", kind, strings.Join(names, ", "), more)
}

// globbed quotes what a pattern would not take literally.
var globbed = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// NoRecords is the error of paths below which no records were found.
func NoRecords(paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := regular.Open(path)
		if err != nil {
			return err
		}
		f.Close()
		return fmt.Errorf("%s is neither a run directory nor a record\n\thint: name a run directory (it contains plan.json), "+
			"a folder of them, a record (result.json), or an archive", path)
	}
	return fmt.Errorf("no records below %[1]s\n\thint: if there are runs, write their records with profllm collect %[1]s",
		strings.Join(paths, " "))
}

// Same reports whether two paths are of the same file or folder.
func Same(a, b string) bool {
	first, err := os.Stat(a)
	second, e := os.Stat(b)
	return err == nil && e == nil && os.SameFile(first, second)
}
