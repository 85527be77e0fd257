//go:build !linux || !cgo || nonvml

package gpu

// library is empty in a static binary, which cannot open the driver's library.
func library() []reader { return nil }

// libraryWatch is empty for the same reason.
func libraryWatch() []watcher { return nil }
