package figure

import (
	"image/color"

	"gonum.org/v1/plot/vg"
)

// The palette is that of Okabe and Ito (Color Universal Design, 2008) without its yellow, which
// is too light on white, in an order in which neighbours differ in lightness.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x00, 0x00, 0x00, 0xff}, // black
	{0x00, 0x9e, 0x73, 0xff}, // bluish green
	{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	{0xd5, 0x5e, 0x00, 0xff}, // vermillion
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
}

var (
	ink     = color.RGBA{0x1a, 0x1a, 0x1a, 0xff}
	dim     = color.RGBA{0x59, 0x59, 0x59, 0xff}
	gridInk = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	greyInk = color.RGBA{0x99, 0x99, 0x99, 0xff}
	paper   = color.RGBA{0xff, 0xff, 0xff, 0xff}
	shade   = color.RGBA{0xf3, 0xf3, 0xf3, 0xff} // of spans
)

// shape is the outline of a mark around its middle, of radius 1; nil for a circle. full and
// empty are the same mark on a terminal.
type shape struct {
	corners     [][2]float64
	full, empty rune
}

var shapes = []shape{
	{nil, '●', '○'},
	{[][2]float64{{-0.85, -0.85}, {0.85, -0.85}, {0.85, 0.85}, {-0.85, 0.85}}, '■', '□'},
	{[][2]float64{{-1.1, -0.8}, {1.1, -0.8}, {0, 1.2}}, '▲', '△'},
	{[][2]float64{{0, -1.25}, {1.1, 0}, {0, 1.25}, {-1.1, 0}}, '◆', '◇'},
	{[][2]float64{{-1.1, 0.8}, {1.1, 0.8}, {0, -1.2}}, '▼', '▽'},
	{[][2]float64{{-0.4, -1.1}, {0.4, -1.1}, {0.4, -0.4}, {1.1, -0.4}, {1.1, 0.4}, {0.4, 0.4}, {0.4, 1.1}, {-0.4, 1.1},
		{-0.4, 0.4}, {-1.1, 0.4}, {-1.1, -0.4}, {-0.4, -0.4}}, '✚', '✛'},
}

// dashes tell the lines of 7 x 6 styles and more apart, beside colour and mark.
var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 2, 2, 2}}

// lineRunes and dashedRunes are the lines of a terminal, by style.
var lineRunes, dashedRunes = []rune("·*+xo%"), []rune("-=~:;,")

func lineRune(s Series) rune {
	list := lineRunes
	if s.Dashed {
		list = dashedRunes
	}
	return list[max(s.Style, 0)%len(list)]
}

func inkOf(style int) color.RGBA {
	if style < 0 {
		return greyInk
	}
	return palette[style%len(palette)]
}

func shapeOf(style int) shape {
	if style < 0 {
		return shapes[0]
	}
	return shapes[style%len(shapes)]
}

func dashesOf(s Series) []vg.Length {
	switch {
	case s.Dashed:
		return dashes[1]
	case s.Style < 0:
		return nil
	case !s.Marks && !s.Sparse:
		return dashes[s.Style%len(dashes)]
	}
	return dashes[s.Style/len(shapes)%len(dashes)]
}
