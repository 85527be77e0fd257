package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// config is the repeats of one configuration.
type config struct {
	rows  []*Row
	curve string
	label string
	load  *float64 // the number that orders the points of a curve
}

// first is the row that stands for all.
func (c *config) first() *Row { return c.rows[0] }

func (c *config) hollow() bool {
	return slices.ContainsFunc(c.rows, func(r *Row) bool { return r.Hollow })
}

// mean is a column over the repeats, ok is false if none has a number.
func (c *config) mean(column string) (mean, sd float64, ok bool) {
	var xs []float64
	for _, r := range c.rows {
		if v := r.Number(column); v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) {
			xs = append(xs, *v)
		}
	}
	if len(xs) == 0 {
		return 0, 0, false
	}
	mean, sd = moments(xs)
	return mean, sd, true
}

// configs are the configurations of rows, in their order.
func configs(rows []*Row) []*config {
	var list []*config
	at := map[string]*config{}
	for _, r := range rows {
		c := at[r.same]
		if c == nil {
			c = &config{}
			at[r.same], list = c, append(list, c)
		}
		c.rows = append(c.rows, r)
	}
	return list
}

// follows are settings that say how long a load lasts, and not how much of it there is.
var follows = []string{"num_prompts", "num_warmups", "request_count", "warmup_request_count"}

// asked is what was asked for a run, by short names: its settings, or what its sweep chose.
func (r *Row) asked() map[string]string {
	out := map[string]string{}
	if r.Run == nil {
		for _, k := range slices.Concat(loadKeys, follows) {
			if v, ok := r.Values[k]; ok {
				out[k] = v.Text // a sweep replaces what the client wrote, in its place
			}
		}
		for _, s := range r.Chosen {
			out[s.Key] = s.Value
		}
		return out
	}
	for k, v := range r.Run.Settings {
		out[k] = v
	}
	return out
}

// bare is a key without the table that it stands in.
func bare(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// varying are the keys of what was asked that are not the same in all configurations, sorted.
func varying(list []*config) []string {
	values := map[string]map[string]bool{}
	asked := make([]map[string]string, len(list))
	for i, c := range list {
		asked[i] = c.first().asked()
		for k := range asked[i] {
			values[k] = map[string]bool{}
		}
	}
	for _, a := range asked {
		for k := range values {
			v, ok := a[k]
			if !ok {
				v = "n/a"
			}
			values[k][v] = true
		}
	}
	var keys []string
	for k, v := range values {
		if len(v) > 1 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// named gives configurations the names of their curves and the labels of their points: within a test,
// the load labels the points, and everything else that varies names the curve. Where the load does not
// vary, what varies labels the points. labels is what the labels are, for the caption.
func (t *Table) named(list []*config) (labels []string) {
	tests := distinct(rowsOf(list), (*Row).testOf)
	builds := distinct(rowsOf(list), (*Row).build)
	kinds := distinct(rowsOf(list), func(r *Row) string { return string(r.Kind) })
	for _, test := range tests {
		part := slices.DeleteFunc(slices.Clone(list), func(c *config) bool { return c.first().testOf() != test })
		keys := varying(part)
		load := ""
		for _, l := range loadKeys {
			i := slices.IndexFunc(keys, func(k string) bool { return bare(k) == l })
			if load == "" && i >= 0 {
				load = keys[i]
			}
		}
		for _, c := range part {
			c.name(keys, load)
			if len(tests) > 1 {
				c.curve = strings.TrimSpace(c.first().testIn(tests) + " " + c.curve)
			}
			if b := c.first().build(); len(builds) > 1 && b != "" {
				c.curve = strings.TrimSpace(c.curve + " " + b)
			}
			if len(kinds) > 1 {
				c.curve += c.first().Kind.Suffix()
			}
		}
		if said := cmp.Or(bare(load), "what varies"); !slices.Contains(labels, said) && len(keys) > 0 {
			labels = append(labels, said)
		}
	}
	return labels
}

// testOf names the test of a row, with its scenario.
func (r *Row) testOf() string { return strings.Trim(r.scenario+"/"+r.test, "/") }

// testIn names the test of a row among others: without its scenario, if all have the same.
func (r *Row) testIn(tests []string) string {
	if slices.ContainsFunc(tests, func(t string) bool { return !strings.HasPrefix(t, r.scenario+"/") }) {
		return r.testOf()
	}
	return r.test
}

// build is the image and the engine's version of a row.
func (r *Row) build() string {
	if r.Run == nil {
		return ""
	}
	return strings.TrimSpace(r.Run.Surrounding("image") + " " + r.Run.Surrounding("engine"))
}

func (c *config) name(keys []string, load string) {
	asked := c.first().asked()
	var rest []string
	for _, k := range keys {
		if k == load || load != "" && slices.Contains(follows, bare(k)) {
			continue
		}
		if v, ok := asked[k]; ok { // what is not set names itself by its absence
			rest = append(rest, bare(k)+"="+v)
		}
	}
	if load == "" {
		c.label = strings.Join(rest, " ")
		return
	}
	c.curve, c.label = strings.Join(rest, " "), cmp.Or(asked[load], "n/a")
	c.load = textual(asked[load]).Number
}

// natural orders names, numbers within them by their size.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := head(a), head(b)
		p, q := textual(x).Number, textual(y).Number
		c := strings.Compare(x, y)
		if p != nil && q != nil {
			c = cmp.Compare(*p, *q)
		}
		if c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

// head is the digits, or what is none, that a text begins with.
func head(s string) string {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i]
}

// curveName is the name of a curve in a legend of several.
func curveName(name string, of int) string {
	if name == "" && of > 1 {
		return "others"
	}
	return name
}

func rowsOf(list []*config) []*Row {
	var rows []*Row
	for _, c := range list {
		rows = append(rows, c.rows...)
	}
	return rows
}

// byCurve parts configurations by their curves, in their order, and orders each by its load.
func byCurve(list []*config) (names []string, of map[string][]*config) {
	of = map[string][]*config{}
	for _, c := range list {
		if of[c.curve] == nil {
			names = append(names, c.curve)
		}
		of[c.curve] = append(of[c.curve], c)
	}
	slices.SortStableFunc(names, natural)
	for _, list := range of {
		slices.SortStableFunc(list, func(a, b *config) int {
			if a.load == nil || b.load == nil {
				return 0
			}
			return cmp.Compare(*a.load, *b.load)
		})
	}
	return names, of
}

// repeats says how many runs configurations have.
func repeats(list []*config) string {
	least, most := math.MaxInt, 0
	runs := 0
	for _, c := range list {
		least, most, runs = min(least, len(c.rows)), max(most, len(c.rows)), runs+len(c.rows)
	}
	return counts(runs, least, most, true)
}

// labelNote says what the labels of points are.
func labelNote(labels []string) []string {
	if len(labels) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Labels: %s.", strings.Join(labels, " or "))}
}
