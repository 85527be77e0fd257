package story

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
)

// Fold makes one story of those that differ only in the load of the run that they are of,
// such as of the points of a sweep whose server died. It keeps their order.
func Fold(stories []Story) []Story {
	var folded []Story
	var loads [][]string // of each
	for _, s := range stories {
		i := slices.IndexFunc(folded, s.same)
		if i < 0 || s.load == "" {
			folded, loads = append(folded, s), append(loads, []string{s.load})
			continue
		}
		loads[i] = append(loads[i], s.load)
	}
	for i, names := range loads {
		if len(names) == 1 {
			continue
		}
		lines := slices.Clone(folded[i].Lines)
		for k := range lines {
			if lines[k].Part == "asked" {
				lines[k].Text = strings.Replace(lines[k].Text, ofLoad(names[0]), ", loads "+ranges(names), 1)
			}
		}
		folded[i].Lines = lines
	}
	return folded
}

// same reports whether two stories of one run tell the same of two loads.
func (s Story) same(other Story) bool {
	return s.load != "" && other.load != "" && s.Dir == other.Dir && s.Verdict == other.Verdict &&
		slices.EqualFunc(s.Lines, other.Lines, func(a, b Line) bool {
			if a.Part == "asked" {
				a.Text = strings.Replace(a.Text, ofLoad(s.load), "", 1)
				b.Text = strings.Replace(b.Text, ofLoad(other.load), "", 1)
			}
			return a == b
		})
}

// ofLoad is how a story names its load in what was asked.
func ofLoad(name string) string { return ", load " + name }

// ranges joins the names of loads: 3-7, or cold, hot.
func ranges(names []string) string {
	numbers := make([]int, len(names))
	for i, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil {
			return strings.Join(names, ", ")
		}
		numbers[i] = n
	}
	slices.Sort(numbers)
	return quantity.Ranges(numbers)
}
