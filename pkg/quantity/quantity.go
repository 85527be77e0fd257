// Package quantity writes numbers with their unit or their noun, for people.
//
//	quantity.Bytes(3 << 29)     // 1.5 GiB
//	quantity.Count(2, "run")    // 2 runs
package quantity

import "fmt"

// Units of sizes, in bytes.
const (
	KiB = 1 << 10
	MiB = 1 << 20
	GiB = 1 << 30
)

// Bytes is a size in the largest unit of which there is one at least, rounded down but
// for sizes from 1 to 10 GiB, which have a decimal. Less than 1 KiB is 0 KiB.
func Bytes(n int64) string {
	switch {
	case n >= 10*GiB:
		return fmt.Sprintf("%d GiB", n/GiB)
	case n >= GiB:
		return fmt.Sprintf("%.1f GiB", float64(n)/GiB)
	case n >= MiB:
		return fmt.Sprintf("%d MiB", n/MiB)
	}
	return fmt.Sprintf("%d KiB", n/KiB)
}

// Count is a number of things: 1 run, 2 runs, 0 runs.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
