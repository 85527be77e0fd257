// Package quantity writes numbers with their unit or their noun, for people.
//
//	quantity.Bytes(3 << 29)     // 1.5 GiB
//	quantity.Count(2, "run")    // 2 runs
//	quantity.Duration(90 * time.Minute) // 1 h 30 min
//	quantity.Ranges([]int{1, 2, 3, 5})  // 1-3, 5
package quantity

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

// Clause is a number of things and what they do: 1 field differs, 2 fields differ.
func Clause(n int, noun, verb string) string {
	if n == 1 {
		verb += "s"
	}
	return Count(n, noun) + " " + verb
}

// Duration is a time in hours and minutes, below an hour in minutes and below two minutes
// in seconds, rounded: 1 h 30 min, 14 min, 45 s.
func Duration(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", int(d.Round(time.Second)/time.Second))
	}
	m := int(d.Round(time.Minute) / time.Minute)
	switch {
	case m < 60:
		return fmt.Sprintf("%d min", m)
	case m%60 == 0:
		return fmt.Sprintf("%d h", m/60)
	}
	return fmt.Sprintf("%d h %d min", m/60, m%60)
}

// NodeHours is a limit of nodes times hours: 8.0 node-hours. A limit is not rounded to 0.
func NodeHours(h float64) string {
	const least = 0.1
	if h > 0 {
		h = max(h, least)
	}
	return fmt.Sprintf("%.1f node-hours", h)
}

// Ranges is a list of increasing numbers, neighbours joined: 1-3, 5.
func Ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		switch end - i {
		case 0:
			parts = append(parts, strconv.Itoa(list[i]))
		case 1:
			parts = append(parts, strconv.Itoa(list[i]), strconv.Itoa(list[end]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[end]))
		}
		i = end + 1
	}
	return strings.Join(parts, ", ")
}

// Names joins names, numbers among themselves: 2-7, or cold, hot.
func Names(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	numbers := make([]int, len(names))
	for i, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil {
			return strings.Join(names, ", ")
		}
		numbers[i] = n
	}
	slices.Sort(numbers)
	return Ranges(numbers)
}

// Paths joins paths, those beside each other by their last elements: a/0-3, b/{1,7}.
func Paths(paths []string) string {
	var folders, parts []string
	names := map[string][]string{}
	for _, p := range paths {
		dir := filepath.Dir(p)
		if names[dir] == nil {
			folders = append(folders, dir)
		}
		names[dir] = append(names[dir], filepath.Base(p))
	}
	for _, dir := range folders {
		last := Names(names[dir])
		if strings.Contains(last, ", ") {
			last = "{" + strings.ReplaceAll(last, ", ", ",") + "}"
		}
		parts = append(parts, filepath.Join(dir, last))
	}
	return strings.Join(parts, ", ")
}

// Significant is a measured number with three significant digits, in full: 9180, 18.6, 0.0144.
func Significant(x float64) string {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	const digits = 3
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil || math.Abs(rounded) < 1e-6 || math.Abs(rounded) >= 1e15 {
		return strconv.FormatFloat(x, 'g', digits, 64)
	}
	behind := digits - 1 - int(math.Floor(math.Log10(math.Abs(rounded))))
	return strconv.FormatFloat(rounded, 'f', max(behind, 0), 64)
}

// List joins names as a sentence does: a, b and c.
func List(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}
