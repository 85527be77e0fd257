// Package shell quotes words for shells, and divides commands into words.
//
//	shell.Quote("it's") // 'it'\''s'
package shell

import (
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// plain words mean themselves in every locale.
var plain = lazyregexp.New(`^[A-Za-z0-9_./:,@%+=-]+$`)

// Quote writes a text without NUL as one word of every POSIX shell.
func Quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
