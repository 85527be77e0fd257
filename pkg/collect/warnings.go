package collect

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/profllm/profllm/pkg/result"
)

// warnings are those of files that cannot be read as a whole, each once.
type warnings []result.Warning

func (w *warnings) add(one result.Warning) {
	if !slices.Contains(*w, one) {
		*w = append(*w, one)
	}
}

// unread warns of a file that exists and cannot be read.
func (w *warnings) unread(name string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	var named *fs.PathError
	if errors.As(err, &named) {
		err = named.Err // without the path, which differs from one machine to the next
	}
	w.add(result.Warning{Kind: result.Unreadable, File: name, Text: err.Error()})
}
