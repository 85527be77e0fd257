//go:build race

package sender

import "syscall"

// received tells the race detector that bytes arrived: it knows of reads by package syscall only.
func received(fd int) { syscall.Read(fd, nil) }
