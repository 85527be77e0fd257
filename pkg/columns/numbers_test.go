package columns

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// chunkOf is a chunk of random numbers, of which a share is missing.
func chunkOf(r *rand.Rand, missing float64, of func() float64) *numbers {
	p := &numberPart{}
	for row := range uint32(size) {
		if r.Float64() >= missing {
			p.put(row, of())
		}
	}
	p.sum()
	return &p.chunks[0]
}

func subset(r *rand.Rand, share float64) (chosen, others rowBits) {
	for i := range uint32(size) {
		if r.Float64() < share {
			chosen.set(i)
		} else {
			others.set(i)
		}
	}
	return chosen, others
}

// What is left of the sums of a chunk is what the rows themselves give.
func TestWithout(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	answered := 0
	for range 300 {
		scale := math.Pow(10, float64(r.IntN(30)-15))
		c := chunkOf(r, r.Float64()/2, func() float64 { return math.Exp(3*r.NormFloat64()) * scale })
		chosen, others := subset(r, 0.5+r.Float64()/2)
		want, wantSum := c.sum(chosen.list(nil), true)
		got, sum, ok := c.without(others.list(nil), true)
		if !ok {
			continue
		}
		answered++
		require.Equal(t, want, got)
		require.InEpsilon(t, wantSum, sum, 1e-13)
	}
	require.Greater(t, answered, 100)
}

// The smallest and the largest number that is chosen are those that a look at all rows finds, and the rows
// are in order, also where numbers differ in their last bits only, are equal, or far apart.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	kinds := []func() float64{
		r.NormFloat64,
		func() float64 { return math.Exp(300 * r.NormFloat64()) },
		func() float64 { return float64(r.IntN(3)) - 1 },
		func() float64 { return 1.7e12 + float64(r.IntN(1e9)) },
		func() float64 { return [...]float64{-math.MaxFloat64, 0, 5e-324, math.MaxFloat64}[r.IntN(4)] },
		func() float64 { return map[bool]float64{true: 0, false: 1 + r.Float64()/1e9}[r.IntN(2000) == 0] },
	}
	for i := range 120 {
		c := chunkOf(r, r.Float64(), kinds[i%len(kinds)])
		for i, row := range c.order[:c.n] {
			require.True(t, i == 0 || c.x[c.order[i-1]] <= c.x[row])
		}
		chosen, _ := subset(r, math.Pow(r.Float64(), 4))
		want, got := noSums(), noSums()
		for _, row := range chosen.list(nil) {
			if x := c.x[row]; x == x {
				want.low, want.high = min(want.low, x), max(want.high, x)
			}
		}
		c.extend(&got, &chosen, nil)
		require.Equal(t, want, got)
		got = noSums()
		c.extend(&got, &chosen, chosen.list([]uint16{}))
		require.Equal(t, want, got)
	}
}

// A difference that would be all error is refused.
func TestWithoutRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, of := range map[string]func() float64{
		"signs":    r.NormFloat64,
		"overflow": func() float64 { return math.MaxFloat64 },
	} {
		c := chunkOf(r, 0, of)
		_, others := subset(r, 0.9)
		_, _, ok := c.without(others.list(nil), false)
		require.False(t, ok, name)
	}
	c := chunkOf(r, 0, r.Float64)
	c.x[7], c.x[9] = 1e9, 1e9 // taken away, they leave little
	c.summarise()
	var others rowBits
	others.set(7)
	others.set(9)
	_, _, ok := c.without(others.list(nil), false)
	require.False(t, ok)
}

func TestRowBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		a, notA := subset(r, r.Float64())
		b, _ := subset(r, r.Float64())
		list := a.list(nil)
		require.Equal(t, a.count(), len(list))
		both := a
		both.and(&b)
		require.Equal(t, both.count(), a.countBoth(&b))
		for _, i := range list {
			require.True(t, a.has(i))
			require.False(t, notA.has(i))
		}
		not := a
		not.not()
		require.Equal(t, notA, not)
		require.Equal(t, a.count() == 0, a.none())
	}
}

// BenchmarkSums sums up chosen rows of a chunk: with and without gaps, and by what is left out.
func BenchmarkSums(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	chosen, others := subset(r, 0.7)
	rows, rest := chosen.list(nil), others.list(nil)
	for _, missing := range []float64{0, 0.03} {
		c := chunkOf(r, missing, r.Float64)
		b.Run(fmt.Sprintf("sort-%v", missing), func(b *testing.B) {
			for b.Loop() {
				c.summarise()
			}
		})
		b.Run(fmt.Sprintf("sum-%v", missing), func(b *testing.B) {
			for b.Loop() {
				c.sum(rows, missing > 0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
		})
		b.Run(fmt.Sprintf("without-%v", missing), func(b *testing.B) {
			for b.Loop() {
				c.without(rest, missing > 0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
		})
	}
}

// BenchmarkCount counts codes of a chunk by rows and by sets: column.counts goes by what it
// measures.
func BenchmarkCount(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	p := &codePart{}
	for row := range uint32(size) {
		p.put(row, uint16(1+r.IntN(8)))
	}
	chosen, other := subset(r, 0.5)
	rows := chosen.list(nil)
	b.Run("rows", func(b *testing.B) {
		k := &counter{}
		for b.Loop() {
			p.count(0, rows, k)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
	})
	b.Run("set", func(b *testing.B) {
		for b.Loop() {
			chosen.countBoth(&other)
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			rows = chosen.list(rows[:0])
		}
	})
	b.Run("match", func(b *testing.B) {
		table := make([]uint8, 9)
		table[3], table[5] = 1, 1
		for b.Loop() {
			p.match(0, table, &other)
		}
	})
	b.Run("within", func(b *testing.B) {
		c := chunkOf(r, 0.03, r.Float64)
		for b.Loop() {
			c.within(0.2, 0.7, &other)
		}
	})
}
