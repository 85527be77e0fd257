//go:build !race

package sender

// received tells the race detector that bytes arrived.
func received(int) {}
