package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// Explain is the text of an error for a person, with a hint where one is known.
func Explain(err error) string {
	text := err.Error()
	if missing := missingPath(err); missing != nil && !strings.Contains(text, "\thint: ") {
		plain := missing.Path + ": no such file or directory"
		return strings.Replace(text, missing.Error(), plain, 1) + nearHint(missing.Path)
	}
	return text + hint(err)
}

// missingPath is the error of a file or a folder that is not there, nil for others.
func missingPath(err error) *fs.PathError {
	var p *fs.PathError
	if !errors.As(err, &p) || !errors.Is(p, fs.ErrNotExist) ||
		!slices.Contains([]string{"open", "stat", "lstat"}, p.Op) {
		return nil
	}
	return p
}

// Missing is the hint for a file or a folder that is not there, "" for other errors.
func Missing(err error) string {
	if p := missingPath(err); p != nil {
		return nearHint(p.Path)
	}
	return ""
}

// dangling finds a symbolic link in a path, or at its end, that leads to nothing; "" for none.
func dangling(path string) (link, target string) {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			return "", ""
		}
		if target, err := os.Readlink(at); err == nil {
			return at, target
		}
		if at == filepath.Dir(at) {
			return "", ""
		}
	}
}

// nearHint names what the folder holds that may have been meant.
func nearHint(path string) string {
	if link, target := dangling(path); link != "" {
		return fmt.Sprintf("\n\thint: %s is a symbolic link to %s, which does not exist", link, target)
	}
	dir, base := filepath.Dir(path), filepath.Base(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if dir == "." || dir == "/" || !errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		return fmt.Sprintf("\n\thint: the folder %s does not exist%s", dir,
			strings.Replace(nearHint(dir), "\n\thint: ", "; ", 1))
	}
	var names, alike []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		names = append(names, e.Name())
		if filepath.Ext(base) != "" && filepath.Ext(e.Name()) == filepath.Ext(base) && !e.IsDir() ||
			filepath.Ext(base) == "" && e.IsDir() {
			alike = append(alike, e.Name())
		}
	}
	if near := source.Nearest(base, names); near != "" {
		return fmt.Sprintf("\n\thint: did you mean %s?", filepath.Join(dir, near))
	}
	what, where := "folders", "here"
	if filepath.Ext(base) != "" {
		what = "*" + filepath.Ext(base) + " files"
	}
	if dir != "." {
		where = "in " + dir
	}
	if len(alike) == 0 {
		return fmt.Sprintf("\n\thint: there are no %s %s", what, where)
	}
	return fmt.Sprintf("\n\thint: %s %s: %s", what, where, listed(alike))
}

// mostListed is how many names a hint lists.
const mostListed = 8

func listed(names []string) string {
	if len(names) > mostListed {
		return strings.Join(names[:mostListed], ", ") + fmt.Sprintf(" and %d more", len(names)-mostListed)
	}
	return strings.Join(names, ", ")
}
