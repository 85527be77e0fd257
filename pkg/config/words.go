package config

import (
	"fmt"

	"github.com/profllm/profllm/pkg/shell"
)

// SplitWords splits s as a POSIX shell splits words, with quotes and
// backslashes but without expansion of any kind.
func SplitWords(s string) ([]string, error) {
	words, err := shell.Words(s)
	if err != nil {
		return nil, fmt.Errorf("a quote is not closed in %q", s)
	}
	return words, nil
}
