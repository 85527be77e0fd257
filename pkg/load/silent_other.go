//go:build !unix

package load

// silent reports true: here a socket cannot be looked at without reading it.
func silent(int) bool { return true }
