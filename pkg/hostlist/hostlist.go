// Package hostlist parses, expands and formats Slurm host lists such as
// "node[01-03,7],gpu[1-2]x[3-4]".
//
// It never reorders and never guesses: what Slurm 22.05 refuses, or reads as
// something that nobody wrote (n[1- is "n]", n[ 1-2] is n01 and n02), is an
// error. One form goes beyond Slurm: text behind a bracket, n[1-2]-ib. Format
// never writes it, so what it prints can be handed to Slurm.
//
// It asks no Slurm program.
//
//	hosts, err := hostlist.Expand("node[08-10]") // node08 node09 node10
package hostlist

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxHosts bounds one expansion; a longer list is an error, so that a typo such
// as node[1-999999999] cannot exhaust memory. Slurm has the same bound on one
// range, and none on the whole list.
const maxHosts = 1 << 16

// maxNumber bounds the numbers. Slurm reads larger ones as 2^64-1, and at
// 2^64-1 in a bracket scontrol loops until its memory is gone (22.05).
const maxNumber = math.MaxUint64 - 1

// maxName bounds a host name, in bytes: no name in the DNS is longer (RFC 1035,
// 2.3.4).
const maxName = 255

// Expand returns the hosts of list in Slurm's order, duplicates kept. Zero
// padding follows Slurm: the width of a range is that of its first number.
// Items are separated by commas or blanks; empty ones do not count.
func Expand(list string) ([]string, error) {
	var hosts []string
	for _, item := range split(list) {
		expanded, err := expandItem(item, maxHosts-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", abridge(list), err)
		}
		hosts = append(hosts, expanded...)
	}
	return hosts, nil
}

// abridge keeps a message readable whatever was pasted into the list.
func abridge(list string) string {
	const most = 200
	if len(list) <= most {
		return list
	}
	return strings.ToValidUTF8(list[:most], "") + "…"
}

// split cuts at the commas and blanks outside brackets, and drops what is empty.
func split(list string) []string {
	var items []string
	depth, start := 0, 0
	cut := func(end int) {
		if end > start {
			items = append(items, list[start:end])
		}
		start = end + 1
	}
	for i, r := range list {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		case ',', ' ', '\t', '\n':
			if depth == 0 {
				cut(i)
			}
		}
	}
	cut(len(list))
	return items
}

// expandItem expands one item to at most limit hosts.
func expandItem(item string, limit int) ([]string, error) {
	hosts := []string{""}
	for item != "" {
		text, rest, bracket := strings.Cut(item, "[")
		if err := checkText(text); err != nil {
			return nil, err
		}
		if len(hosts[0])+len(text) > maxName {
			return nil, tooLong(hosts[0] + text)
		}
		numbers, last := []string{""}, true
		if bracket {
			ranges, behind, closed := strings.Cut(rest, "]")
			if !closed {
				return nil, fmt.Errorf("%q has no closing bracket", "["+rest)
			}
			var err error
			if numbers, err = expandRanges(ranges, limit/len(hosts)); err != nil {
				return nil, err
			}
			rest, last = behind, !strings.Contains(behind, "[")
		}
		hosts, item = multiply(hosts, text, numbers, last), rest
	}
	if len(hosts) > limit {
		return nil, fmt.Errorf("more than %d hosts", maxHosts)
	}
	for _, h := range hosts {
		if err := checkName(h); err != nil {
			return nil, err
		}
	}
	return hosts, nil
}

// multiply appends text and each number to each host. The order is that of
// Slurm 22.05 (scontrol show hostnames): the last bracket of an item varies
// fastest, and before it the first, then the second, and so on. With two
// brackets that is row by row; with three the middle one is the slowest.
func multiply(hosts []string, text string, numbers []string, last bool) []string {
	out := make([]string, 0, len(hosts)*len(numbers))
	if last {
		for _, h := range hosts {
			for _, n := range numbers {
				out = append(out, h+text+n)
			}
		}
		return out
	}
	for _, n := range numbers {
		for _, h := range hosts {
			out = append(out, h+text+n)
		}
	}
	return out
}

// checkText refuses what no host name holds. Slurm takes nearly everything, but
// then the list means something else to a shell, or to the reader.
func checkText(text string) error {
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return fmt.Errorf("%q cannot stand in a host name", r)
		}
	}
	return nil
}

func tooLong(host string) error {
	return fmt.Errorf("the host name %q is longer than %d bytes", abridge(host), maxName)
}

// checkName refuses a whole name that Slurm would not read as it stands.
func checkName(host string) error {
	if len(host) > maxName {
		return tooLong(host)
	}
	if _, digits := cut(host); digits != "" {
		if n, err := strconv.ParseUint(digits, 10, 64); err != nil || n > maxNumber {
			return fmt.Errorf("the number at the end of %q is above %d, the largest that Slurm can count", host,
				uint64(maxNumber))
		}
	}
	return nil
}

func expandRanges(ranges string, limit int) ([]string, error) {
	var out []string
	for _, r := range strings.Split(ranges, ",") {
		lo, hi, isRange := strings.Cut(r, "-")
		if !isRange {
			hi = lo
		}
		a, err := number(lo)
		if err != nil {
			return nil, err
		}
		b, err := number(hi)
		switch {
		case err != nil:
			return nil, err
		case b < a:
			return nil, fmt.Errorf("range %q runs backwards", r)
		case b-a >= uint64(limit-len(out)):
			return nil, fmt.Errorf("range %q: more than %d hosts", r, maxHosts)
		}
		for i := range b - a + 1 {
			out = append(out, fmt.Sprintf("%0*d", len(lo), a+i))
		}
	}
	return out, nil
}

func number(s string) (uint64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a number of a host range", abridge(s))
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > maxNumber || len(s) > maxName {
		return 0, fmt.Errorf("%q is too large for a host range", abridge(s))
	}
	return n, nil
}

// Format writes hosts as Slurm would (scontrol show hostlist): neighbours with
// the same text before their last number share a bracket, and those that count
// up form a range. The order is kept, so Expand gives hosts back.
func Format(hosts []string) string {
	var b strings.Builder
	for i := 0; i < len(hosts); {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		prefix, digits := cut(hosts[i])
		numbers, j := []string{digits}, i+1
		for ; digits != "" && j < len(hosts); j++ {
			p, d := cut(hosts[j])
			if p != prefix || d == "" {
				break
			}
			numbers = append(numbers, d)
		}
		if len(numbers) == 1 {
			b.WriteString(hosts[i])
		} else {
			b.WriteString(prefix + "[" + formatRanges(numbers) + "]")
		}
		i = j
	}
	return b.String()
}

// formatRanges joins numbers that count up.
func formatRanges(numbers []string) string {
	var ranges []string
	for i := 0; i < len(numbers); {
		j := i + 1
		for j < len(numbers) && follows(numbers[j-1], numbers[j], len(numbers[i])) {
			j++
		}
		r := numbers[i]
		if j > i+1 {
			r += "-" + numbers[j-1]
		}
		ranges, i = append(ranges, r), j
	}
	return strings.Join(ranges, ",")
}

// cut splits a host name before the number at its end.
func cut(host string) (prefix, digits string) {
	prefix = strings.TrimRight(host, "0123456789")
	return prefix, host[len(prefix):]
}

// follows reports whether next is n plus one in a range of that width: Slurm
// pads every number of a range to the width of the first.
func follows(n, next string, width int) bool {
	a, errA := strconv.ParseUint(n, 10, 64)
	b, errB := strconv.ParseUint(next, 10, 64)
	return errA == nil && errB == nil && b == a+1 && b != 0 && fmt.Sprintf("%0*d", width, b) == next
}
