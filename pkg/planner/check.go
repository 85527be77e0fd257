package planner

import (
	"slices"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
)

const (
	mostTried    = 64 // points among which one without a fault is looked for
	mostPartners = 64 // other points in which a refused value is tried
	mostRefused  = 20 // values whose errors are reported
)

// Check looks at one test without a cluster: its workload, its arguments, and each value of
// every list of its sweep. A value is refused if it is refused with every value of the others.
func Check(t scenario.Test) error {
	b := builder{scenario: &scenario.Scenario{}}
	points, _, err := b.points(t)
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return b.checked(t)
	}
	s, err := Sweep(t)
	if err != nil {
		return err
	}
	x := checker{builder: &b, test: t}
	x.choose(points)
	all := alternatives(s)
	for _, a := range all {
		for i := range a.n {
			if x.refused < mostRefused {
				x.value(a, i, all)
			}
		}
	}
	return x.complaints.Err()
}

// checked looks at one test that is no sweep.
func (b *builder) checked(t scenario.Test) error {
	if note, err := catalog.Template(&t); note != "" || err != nil {
		return err // one that is not supported yet can be read, and that is all
	}
	var c source.Complaints
	t, err := catalog.Prepared(t)
	if err != nil {
		return err
	}
	_, err = t.Nodes()
	c.Add(err)
	_, err = workload(t, false)
	c.Add(err)
	for _, l := range phases(t) {
		_, err := b.load(t, l, "")
		c.Add(err)
	}
	return c.Err()
}

// checker checks the values of a sweep one by one, the others being those of one point.
type checker struct {
	*builder
	test       scenario.Test
	base       sweep.Point
	complaints source.Complaints
	refused    int // values
}

// alternative is what takes values by itself: a dimension, the dimensions of a zip group, or an
// argument that the environment draws.
type alternative struct {
	n  int                            // of values
	at func(i int) []sweep.Assignment // the i-th of them
}

// alternatives are those of a sweep.
func alternatives(s *sweep.Sweep) []alternative {
	var list []alternative
	add := func(dims ...sweep.Dimension) {
		list = append(list, alternative{len(dims[0].Values), func(i int) []sweep.Assignment {
			var values []sweep.Assignment
			for _, d := range dims {
				values = append(values, sweep.Assignment{Path: d.Path, Value: d.Values[i]})
			}
			return values
		}})
	}
	zips := map[int][]sweep.Dimension{}
	for _, d := range s.Dimensions {
		if d.Zip > 0 {
			zips[d.Zip] = append(zips[d.Zip], d)
		}
	}
	for _, d := range s.Dimensions {
		switch group := zips[d.Zip]; {
		case d.Zip == 0:
			add(d)
		case group[0].Path == d.Path:
			add(group...)
		}
	}
	for _, e := range s.Env {
		add(sweep.Dimension{Path: e.Name, Values: e.Values})
	}
	return list
}

// choose takes a point without a fault as the base, and the first if it finds none.
func (x *checker) choose(points []sweep.Point) {
	x.base = points[0]
	for _, p := range points[:min(len(points), mostTried)] {
		if x.point(p) == nil {
			x.base = p
			return
		}
	}
}

// point checks one point.
func (x *checker) point(p sweep.Point) error {
	table, err := sweep.Apply(x.test.Table, p)
	if err != nil {
		return err
	}
	t, err := x.test.Variant(table)
	if err != nil {
		return err
	}
	return x.checked(t)
}

// value checks the i-th value of an alternative in the base, and with other values of one other
// alternative if it is refused there: then the two may only not fit each other.
func (x *checker) value(a alternative, i int, others []alternative) {
	p := with(x.base, a.at(i))
	err := x.point(p)
	if err == nil {
		return
	}
	tried := 0
	for _, o := range others {
		for j := range o.n {
			if tried++; tried > mostPartners {
				break
			}
			if x.point(with(with(x.base, o.at(j)), a.at(i))) == nil {
				return
			}
		}
	}
	x.refused++
	x.complaints.Add(err)
}

// with is a point with other values for some paths.
func with(p sweep.Point, values []sweep.Assignment) sweep.Point {
	p.Values, p.Env = slices.Clone(p.Values), slices.Clone(p.Env)
	for _, v := range values {
		for _, list := range [][]sweep.Assignment{p.Values, p.Env} {
			for i := range list {
				if list[i].Path == v.Path {
					list[i].Value = v.Value
				}
			}
		}
	}
	return p
}
