package pyrand

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// CPython 3.11.7: random.Random(text).getrandbits(32) and .random().hex().
func TestTwisterIsCPythons(t *testing.T) {
	floats := []string{"0x1.eba2b25d163e4p-1", "0x1.168ee940c9e86p-2", "0x1.85c0f770e0488p-1", "0x1.0d09181ac5ac0p-7",
		"0x1.b33406ebe504bp-1"}
	words := []uint64{4124137760, 1168357962, 3269491616, 35263022, 3650749297}
	for i, text := range []string{"", "a", "\x00", "42:x:1", strings.Repeat("x", 200)} {
		require.Equal(t, words[i], FromText(text).Bits(32), "%.10q", text)
		want, err := strconv.ParseFloat(floats[i], 64)
		require.NoError(t, err)
		require.Equal(t, want, FromText(text).Float(), "%.10q", text)
	}
	var got []uint64
	for _, k := range []int{1, 31, 32, 33, 50, 63} {
		got = append(got, FromText("big").Bits(k))
	}
	require.Equal(t, []uint64{1, 1999294022, 3998588045, 8293555341, 1066036356291725, 8732943022541872269}, got)
	long := FromText("long")
	var list []uint64
	for range 2000 {
		list = append(list, long.Bits(32))
	}
	require.Equal(t, []uint64{658535726, 3972319786, 4286305628, 567067011}, append(list[623:626:626], list[1999]),
		"past the first 624 words")
}

var generatorDraws = []struct {
	seed            uint64
	thousand, large []int // integers(0, 1000, size=5), integers(0, 2**31, size=3)
	below           int   // integers(0, 3000000000)
	list, order     []int // shuffle(list(range(10))), permutation(7)
}{
	{0, []int{850, 636, 511, 269, 307}, []int{87989972, 161576974, 35492827}, 525801878,
		[]int{2, 9, 3, 6, 0, 4, 7, 5, 1, 8}, []int{4, 0, 6, 2, 5, 1, 3}},
	{1, []int{473, 511, 755, 950, 34}, []int{309580411, 1767258089, 2037209175}, 935494355,
		[]int{1, 0, 6, 9, 7, 2, 3, 4, 5, 8}, []int{1, 3, 0, 6, 4, 5, 2}},
	{12345678901, []int{87, 836, 738, 316, 79}, []int{139299288, 1836722329, 729387407}, 1465814064,
		[]int{3, 6, 7, 8, 0, 2, 1, 9, 4, 5}, []int{6, 3, 2, 0, 4, 1, 5}},
	{1099511627783, []int{206, 829, 609, 255, 17}, []int{330263047, 1083858117, 1448487482}, 2655564380,
		[]int{3, 0, 4, 8, 6, 2, 9, 1, 7, 5}, []int{0, 4, 6, 5, 1, 3, 2}},
}

var legacyDraws = []struct {
	seed                   uint32
	thousand, order, large []int // randint(0, 1000, size=6), permutation(12), randint(0, 70000, size=3)
}{
	{0, []int{684, 559, 629, 192, 835, 763},
		[]int{1, 6, 8, 10, 0, 4, 2, 5, 11, 9, 7, 3}, []int{17089, 32230, 18983}},
	{1, []int{37, 235, 908, 72, 767, 905},
		[]int{3, 8, 7, 2, 6, 10, 4, 1, 9, 0, 5, 11}, []int{21758, 45413, 35730}},
	{4294967295, []int{419, 290, 12, 71, 948, 576},
		[]int{8, 1, 5, 4, 11, 2, 3, 7, 0, 9, 10, 6}, []int{23693, 37590, 3598}},
}

var pythonDraws = []struct {
	seed                int64
	list, hundred, nine []int // shuffle(range(10)), choices(range(100), k=5), choice(range(9)) thrice
}{
	{0, []int{7, 8, 1, 5, 3, 4, 2, 0, 9, 6}, []int{35, 89, 21, 13, 13}, []int{1, 4, 8}},
	{7, []int{8, 3, 1, 4, 7, 0, 9, 6, 2, 5}, []int{90, 21, 8, 41, 24}, []int{8, 6, 0}},
	{-3, []int{1, 5, 6, 0, 9, 4, 7, 2, 8, 3}, []int{90, 46, 55, 19, 71}, []int{8, 8, 7}},
	{1099511627783, []int{0, 5, 2, 3, 6, 1, 8, 4, 7, 9}, []int{39, 44, 89, 22, 89}, []int{2, 2, 8}},
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// numpy 2.3.5 and CPython 3.11 gave the numbers of these tests.
func TestGeneratorIsNumpys(t *testing.T) {
	for _, want := range generatorDraws {
		g := NewGenerator(want.seed)
		require.Equal(t, want.thousand, g.Ints(1000, 5), "seed %d", want.seed)
		require.Equal(t, want.large, g.Ints(1<<31, 3))
		require.Zero(t, g.Int(1))
		require.Equal(t, want.below, g.Int(3_000_000_000))
		list, order := upTo(10), upTo(7)
		g.Shuffle(10, func(i, j int) { list[i], list[j] = list[j], list[i] })
		require.Equal(t, want.list, list)
		g.Shuffle(7, func(i, j int) { order[i], order[j] = order[j], order[i] })
		require.Equal(t, want.order, order)
	}
}

// Draws of several kinds share one stream: numpy 2.3, default_rng(7).
func TestGeneratorDrawsBytesAndChoices(t *testing.T) {
	g := NewGenerator(7)
	require.Equal(t, []int{944, 625, 684}, g.Ints(1000, 3))
	pixels := make([]byte, 18)
	g.Bytes(pixels)
	require.Equal(t, []byte{188, 205, 175, 229, 98, 249, 10, 148, 95, 86, 147, 198, 66, 39, 106, 213, 171, 45}, pixels)
	require.Equal(t, 0, g.Int(5))
	var picked []int
	for range 12 {
		picked = append(picked, g.Weighted([]float64{0.2, 0.5, 0.3}))
	}
	require.Equal(t, []int{2, 0, 2, 2, 1, 1, 1, 1, 1, 1, 1, 2}, picked)
	g.Bytes(pixels[:5])
	require.Equal(t, []byte{153, 178, 215, 76, 99}, pixels[:5])
	require.Equal(t, 0.6221792294411627, g.Float())
}

func TestLegacyIsNumpys(t *testing.T) {
	for _, want := range legacyDraws {
		l := NewLegacy(want.seed)
		require.Equal(t, want.thousand, l.Ints(1000, 6), "seed %d", want.seed)
		require.Equal(t, want.order, l.Permutation(12))
		require.Equal(t, []int{0, 0}, l.Ints(1, 2))
		require.Equal(t, want.large, l.Ints(70_000, 3))
	}
}

func TestIntegerSeedsAreCPythons(t *testing.T) {
	for _, want := range pythonDraws {
		p, list := FromInt(want.seed), upTo(10)
		p.Shuffle(10, func(i, j int) { list[i], list[j] = list[j], list[i] })
		require.Equal(t, want.list, list, "seed %d", want.seed)
		require.Equal(t, want.hundred, p.Choices(100, 5))
		require.Equal(t, want.nine, []int{p.Below(9), p.Below(9), p.Below(9)})
	}
}
