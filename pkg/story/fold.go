package story

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
)

// Fold makes one story of those that differ only in the load of the run that they are of,
// such as of the points of a sweep whose server died, and of those whose job ended before their
// turn. It keeps their order.
func Fold(stories []Story) []Story {
	var folded []Story
	stories = foldTurns(stories)
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
				lines[k].Text = strings.Replace(lines[k].Text, ofLoad(names[0]), ", loads "+quantity.Names(names), 1)
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

// foldTurns names the runs whose job ended before their turn in the story of the run in which
// the job was cancelled, or else in that of the first of them.
func foldTurns(stories []Story) []Story {
	waited := map[string][]int{} // by job
	host := map[string]int{}
	for i, s := range stories {
		switch {
		case s.job == "":
		case s.missedTurn:
			waited[s.job] = append(waited[s.job], i)
		case s.Verdict == cancelled || strings.HasPrefix(s.Verdict, cancelled+","):
			host[s.job] = i
		}
	}
	var folded []Story
	for i, s := range stories {
		list, at := waited[s.job], i
		if len(list) > 0 {
			var ok bool
			if at, ok = host[s.job]; !ok {
				at, list = list[0], list[1:]
			}
		}
		if s.missedTurn && at != i {
			continue
		}
		if at == i && len(list) > 0 {
			paths := make([]string, len(list))
			for k, other := range list {
				paths[k] = stories[other].at
			}
			s.Lines = slices.Concat(s.Lines, []Line{{"others",
				quantity.Count(len(list), "more run") + " of this job never ran: " + quantity.Paths(paths)}})
		}
		folded = append(folded, s)
	}
	return folded
}
