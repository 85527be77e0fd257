// Package hostlist parses, expands and formats Slurm host lists such as
// "node[01-03,7],gpu[1-2]x[3-4]".
//
// It never reorders and never guesses: what Slurm would not accept is an error.
// It asks no Slurm program. Expansion is row-major, as Slurm's own.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxHosts bounds one expansion; a longer list is an error, so that a typo such
// as node[1-999999999] cannot exhaust memory.
const MaxHosts = 1 << 16

// Expand returns the hosts of list in order, duplicates kept. Zero padding
// follows Slurm: the width of a range is that of its first number.
func Expand(list string) ([]string, error) {
	var hosts []string
	for _, item := range split(list) {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		expanded, err := expandItem(item)
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", list, err)
		}
		if len(hosts)+len(expanded) > MaxHosts {
			return nil, fmt.Errorf("host list %q: more than %d hosts", list, MaxHosts)
		}
		hosts = append(hosts, expanded...)
	}
	return hosts, nil
}

// split cuts at the commas outside brackets.
func split(list string) []string {
	var items []string
	depth, start := 0, 0
	for i, r := range list {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				items = append(items, list[start:i])
				start = i + 1
			}
		}
	}
	return append(items, list[start:])
}

func expandItem(item string) ([]string, error) {
	hosts := []string{""}
	for item != "" {
		open := strings.IndexByte(item, '[')
		text := item
		if open >= 0 {
			text = item[:open]
		}
		if i := strings.IndexAny(text, "] \t\r\n;|&$'\"`<>(){}*?!\\/"); i >= 0 {
			return nil, fmt.Errorf("%q cannot stand in a host name", text[i])
		}
		for i := range hosts {
			hosts[i] += text
		}
		if open < 0 {
			break
		}
		end := strings.IndexByte(item, ']')
		if end < open {
			return nil, fmt.Errorf("%q has no closing bracket", item[open:])
		}
		numbers, err := expandRanges(item[open+1:end], MaxHosts/len(hosts))
		if err != nil {
			return nil, err
		}
		next := make([]string, 0, len(hosts)*len(numbers))
		for _, h := range hosts {
			for _, n := range numbers {
				next = append(next, h+n)
			}
		}
		hosts, item = next, item[end+1:]
	}
	return hosts, nil
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
		if err != nil {
			return nil, err
		}
		if b < a {
			return nil, fmt.Errorf("range %q runs backwards", r)
		}
		if b-a+1 > limit-len(out) {
			return nil, fmt.Errorf("range %q: more than %d hosts", r, MaxHosts)
		}
		for n := a; n <= b; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(lo), n))
		}
	}
	return out, nil
}

func number(s string) (int, error) {
	if s == "" || len(s) > 9 || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a number of a host range", s)
	}
	return strconv.Atoi(s)
}

// Format writes hosts as a host list. Neighbours that count up with the same
// prefix, suffix and padding become a range; the order is kept.
func Format(hosts []string) string {
	var b strings.Builder
	for i := 0; i < len(hosts); {
		prefix, digits, suffix := cut(hosts[i])
		j := i + 1
		var ranges []string
		for lo, hi := digits, digits; digits != ""; {
			next := ""
			if j < len(hosts) {
				if p, d, s := cut(hosts[j]); p == prefix && s == suffix && d != "" {
					next = d
				}
			}
			if next != "" && follows(hi, next, lo) {
				hi = next
				j++
				continue
			}
			if lo == hi {
				ranges = append(ranges, lo)
			} else {
				ranges = append(ranges, lo+"-"+hi)
			}
			if next == "" {
				break
			}
			lo, hi = next, next
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		if len(ranges) == 1 && !strings.Contains(ranges[0], "-") || len(ranges) == 0 {
			b.WriteString(hosts[i])
		} else {
			b.WriteString(prefix + "[" + strings.Join(ranges, ",") + "]" + suffix)
		}
		i = j
	}
	return b.String()
}

// cut splits a host name around its last run of digits. A run that is too long
// for a range counts as text.
func cut(host string) (prefix, digits, suffix string) {
	end := strings.LastIndexAny(host, "0123456789") + 1
	start := end
	for start > 0 && host[start-1] >= '0' && host[start-1] <= '9' {
		start--
	}
	if end-start > 9 {
		return host, "", ""
	}
	return host[:start], host[start:end], host[end:]
}

// follows reports whether next is hi plus one in a range that began at lo:
// Slurm pads every number of a range to the width of the first.
func follows(hi, next, lo string) bool {
	a, _ := strconv.Atoi(hi)
	b, _ := strconv.Atoi(next)
	return b == a+1 && fmt.Sprintf("%0*d", len(lo), b) == next
}
