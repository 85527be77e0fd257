package source

import "github.com/profllm/profllm/pkg/lazyregexp"

// OfHome reports whether a text is a path below a home folder as shells have it: ~/x or ~user/x.
func OfHome(text string) bool { return ofHome.MatchString(text) }

var ofHome = lazyregexp.New(`^~(/|[A-Za-z_][A-Za-z0-9_.-]*/)`)
