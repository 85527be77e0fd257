package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Condition keeps the runs whose value in a column compares so with a number or a text.
type Condition struct {
	Column, Operator, Value string
}

// operators are those of vllm bench sweep plot, longer ones first.
var operators = []string{"==", "!=", "<=", ">=", "<", ">"}

// ParseConditions reads conditions such as max_concurrency<1000,model==tiny, which must all hold.
func ParseConditions(text string) ([]Condition, error) {
	var list []Condition
	for _, part := range parts(text) {
		c, err := parseCondition(part)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// parts are the parts of a list between commas; none of an empty text.
func parts(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func parseCondition(text string) (Condition, error) {
	for _, op := range operators {
		key, value, ok := strings.Cut(text, op)
		if !ok {
			continue
		}
		c := Condition{strings.TrimSpace(key), op, strings.Trim(strings.Trim(strings.TrimSpace(value), "'"), `"`)}
		if c.Column == "" || strings.Contains(value, op) {
			break
		}
		if _, err := strconv.ParseFloat(c.Value, 64); err != nil && op != "==" && op != "!=" {
			return c, fmt.Errorf("condition %q: %q is not a number", text, c.Value)
		}
		return c, nil
	}
	return Condition{}, fmt.Errorf("condition %q: want a column, one of %s, and a value, such as max_concurrency<1000",
		text, strings.Join(operators, " "))
}

// holds reports whether a row keeps the condition. A row without a value keeps only !=.
func (c Condition) holds(r *Row) bool {
	v := r.Values[c.Column]
	target, err := strconv.ParseFloat(c.Value, 64)
	if err != nil {
		return (v.Text == c.Value) == (c.Operator == "==")
	}
	x := math.NaN()
	if v.Number != nil {
		x = *v.Number
	}
	switch c.Operator {
	case "==":
		return x == target
	case "!=":
		return x != target
	case "<":
		return x < target
	case "<=":
		return x <= target
	case ">":
		return x > target
	}
	return x >= target
}

// Filter keeps the rows for which all conditions hold.
func (t *Table) Filter(list []Condition) error {
	for _, c := range list {
		if err := t.need("--filter-by", c.Column); err != nil {
			return err
		}
	}
	var kept []*Row
	for _, r := range t.Rows {
		ok := true
		for _, c := range list {
			ok = ok && c.holds(r)
		}
		if ok {
			kept = append(kept, r)
		} else {
			t.filtered++
		}
	}
	t.Rows = kept
	return nil
}

// Bin rounds the numbers of a column down to multiples of a size.
type Bin struct {
	Column string
	Size   float64
}

// ParseBins reads bins such as request_throughput%1.
func ParseBins(text string) ([]Bin, error) {
	var list []Bin
	for _, part := range parts(text) {
		key, size, ok := strings.Cut(part, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(size), 64)
		key = strings.TrimSpace(key)
		if !ok || err != nil || key == "" || !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("bin %q: want a column, %%, and a size above 0, such as request_throughput%%1", part)
		}
		list = append(list, Bin{key, v})
	}
	return list, nil
}

// Bin rounds the columns of all rows.
func (t *Table) Bin(list []Bin) error {
	for _, b := range list {
		if err := t.need("--bin-by", b.Column); err != nil {
			return err
		}
		for _, r := range t.Rows {
			if v := r.Number(b.Column); v != nil {
				x := floorDiv(*v, b.Size) * b.Size
				r.Values[b.Column] = Value{Number: &x, Text: strconv.FormatFloat(x, 'g', -1, 64)}
			}
		}
	}
	return nil
}

// floorDiv is the whole number of times that b goes into a, as NumPy computes it: 1 // 0.1 is 9,
// because 0.1 is a little more than a tenth.
func floorDiv(a, b float64) float64 {
	mod := math.Mod(a, b)
	div := (a - mod) / b
	if mod < 0 {
		div--
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor
}
